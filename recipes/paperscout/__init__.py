"""The scholarly search recipe."""
