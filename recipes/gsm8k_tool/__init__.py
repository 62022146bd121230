"""The GSM8K-with-a-calculator recipe."""
