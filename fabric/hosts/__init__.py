"""Ways to run a command on a host: ssh, Slurm, process, mock."""
