"""The simulated rack: answers a command line in the real tool's own words."""
