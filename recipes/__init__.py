"""Recipes: one folder a task with its data preparation and training configuration."""
