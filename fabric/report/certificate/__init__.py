"""Certificates of runs: the document, its page and its signature."""
