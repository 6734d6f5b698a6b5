"""One file per kind of measurement: what to run, what it holds alone, what it yields."""
