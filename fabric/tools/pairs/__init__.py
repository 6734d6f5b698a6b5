"""Results of tests between pairs of hosts, as other tools write them: one file a format."""
