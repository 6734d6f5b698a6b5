"""What governs a simulated InfiniBand subnet: its managers, how links that go down are routed around, and UFM."""
