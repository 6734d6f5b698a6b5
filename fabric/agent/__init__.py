"""What runs on a host during a run: stdlib-only Python, sent over stdin, nothing installed."""
