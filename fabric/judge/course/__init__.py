"""Courses of many rounds, part by part: ``located.py`` is the way in."""
