"""Runs the planned probes through an executor and writes down what happened."""
