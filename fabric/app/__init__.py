"""The questions that a person can ask, one file each; the command line only parses, calls and prints."""
