"""Scholarly search: a pool of papers built by searching and by following citations."""
