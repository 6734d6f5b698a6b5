"""The course of each part over many rounds; start at ``located.py``."""
