"""Judging, from files only: what is normal, which part explains what is not, and the verdict."""
