"""Unmodified verl without a GPU: a platform and a rollout, for debugging and for tests."""
