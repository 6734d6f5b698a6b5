"""Inventory, scenario and baseline files: YAML to the model, strictly, every problem at once with its line."""
