"""From claims to a schedule; knows nothing about kinds."""
