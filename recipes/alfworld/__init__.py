"""ALFWorld: data preparation and configuration."""
