"""Two runs of the same things."""
