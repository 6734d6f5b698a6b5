"""Judging, from files only: what is normal, which part explains the rest, the verdict."""
