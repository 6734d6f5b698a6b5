"""YAML files to model, strictly: every problem at once, with file and line."""
