"""ALFWorld: household tasks in text (Shridhar et al., 2021)."""
