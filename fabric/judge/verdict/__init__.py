"""The verdict of a run, and what may be measured beyond its plan."""
