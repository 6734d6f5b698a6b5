"""The types of the keys that files hold: how each is read, what it may be, and how a wrong one is told."""
