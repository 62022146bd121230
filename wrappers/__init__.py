"""Wrappers and context rules around the environments of agentr1_envs."""
