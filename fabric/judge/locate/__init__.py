"""Which part explains bad probes."""
