"""Pre-flight checks: find what would make a scenario fail, or its numbers wrong, before anything is measured."""
