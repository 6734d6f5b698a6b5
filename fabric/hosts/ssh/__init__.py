"""Hosts over SSH (paramiko): connections, keys, certificates."""
