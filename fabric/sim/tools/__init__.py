"""Simulated tools: command lines in, the real tools' own text out."""
