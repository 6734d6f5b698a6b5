"""What is normal: keys, limits, peers, records; how many samples an answer takes."""
