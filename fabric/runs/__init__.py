"""The run directory: what was asked, every event, raw output, measurements."""
