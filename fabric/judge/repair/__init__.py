"""Repaired hosts: may one go back into service, and what counts of one that came back while a run went on."""
