"""The words of the house as frozen dataclasses; pure data, no input or output."""
