"""Sizes of verl runs."""
