"""Hosts over SSH (paramiko): connections and keys."""
