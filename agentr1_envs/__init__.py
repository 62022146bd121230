"""Gymnasium environments for language-model agents."""
