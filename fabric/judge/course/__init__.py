"""Courses of many rounds, part by part: ``over_time.py`` is the way in, ``shapes.py`` knows what courses look like."""
