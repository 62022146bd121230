"""Clients of public scholarly services: time-outs, retries, rate limits and a cache on disk."""
