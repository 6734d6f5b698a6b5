"""What is normal: keys, limits, peers, records, and how many samples an answer needs."""
