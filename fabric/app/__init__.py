"""What a person can ask for, one file a question; the command line only parses, calls and prints."""
