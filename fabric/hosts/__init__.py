"""Ways to run a command on a host: ssh, process, mock."""
