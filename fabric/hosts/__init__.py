"""Ways to run a command on a host: ssh, Slurm, a local process, the simulated rack."""
