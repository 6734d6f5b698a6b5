"""Simulated hosts while they run: their parts, what is shared, who is there."""
