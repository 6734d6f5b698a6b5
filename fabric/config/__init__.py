"""Decode inventory, scenario and baseline files from YAML, strictly; report every problem at once with its line."""

# This import registers the kinds of probes and changes, which every reader of a scenario needs, also of a stored one.
from fabric.config import phases as phases
