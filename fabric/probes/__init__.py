"""One file per kind of measurement: what to run, what it claims, what it yields."""
