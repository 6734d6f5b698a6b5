"""Pre-flight: what would make a scenario fail, or its numbers wrong, seen before anything is measured."""
