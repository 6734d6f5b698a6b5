"""Judging, from files only: limits, suspects, the verdict."""
