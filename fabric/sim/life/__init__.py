"""The life of simulated hosts: parts that warm up, err now and then, fail, and come back."""
