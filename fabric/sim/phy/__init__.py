"""Simulated ports and cables: errors, states, counters."""
