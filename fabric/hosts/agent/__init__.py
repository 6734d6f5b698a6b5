"""The other end of the agent: one conversation over one stream for all that a host is asked."""
