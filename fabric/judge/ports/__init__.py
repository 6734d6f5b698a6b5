"""What ports counted while a run worked."""
