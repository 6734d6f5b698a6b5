"""Inventory, scenario and baseline files: YAML to the model, strictly, every problem at once with its line."""

# Says which kinds of probes and changes there are: whoever reads a scenario, also one that was kept, needs them.
from fabric.config import phases as phases
