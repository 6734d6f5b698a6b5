"""Judging what ports and links counted while a run worked."""
