"""A resilience testbench for GPU network fabrics: measure, disturb, judge, name the bad part."""
