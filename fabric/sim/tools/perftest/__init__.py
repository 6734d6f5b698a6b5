"""``ib_write_bw``."""
