"""What was measured while the fabric was changed on purpose."""
