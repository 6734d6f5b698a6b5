"""What people look at: the console (pages and pictures come later)."""
