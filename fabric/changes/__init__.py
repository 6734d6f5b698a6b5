"""Changes that undo themselves: what to do for each kind, the guard on the target, and the order of steps."""
