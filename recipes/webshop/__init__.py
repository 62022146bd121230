"""WebShop: catalog preparation and training settings."""
