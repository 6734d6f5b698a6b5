"""Judging what was measured while the fabric was changed on purpose."""
