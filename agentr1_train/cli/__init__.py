"""The `agentr1` command."""
