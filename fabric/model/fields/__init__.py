"""Types of the keys in files: how each is read, what values it may have, and how a wrong one is reported."""
