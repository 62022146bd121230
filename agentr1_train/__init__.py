"""Trainer side: rollouts, estimators, losses, the local trainer and the adapter to verl."""
