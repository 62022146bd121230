"""WebShop: buy the product that an instruction describes.

`env.WebShopEnv` is the environment, `session.ShopSession` the shop it plays in, `catalog.Catalog`
what is sold there, `convert.build_catalog` the way from product records to a catalog.
"""
