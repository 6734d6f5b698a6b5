"""A cluster network as max-min fair flows on directed links: topology, routes, rates."""
