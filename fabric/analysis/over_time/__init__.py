"""What many rounds of a run say of each part: ``over_time.py`` is the way in, ``shapes.py`` knows the shapes of a course."""
