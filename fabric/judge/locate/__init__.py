"""The locator: which part explains bad probes."""
