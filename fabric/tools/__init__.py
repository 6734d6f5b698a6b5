"""One file per real tool: how to call it and how to read what it prints; no input or output."""
