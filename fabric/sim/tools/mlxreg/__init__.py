"""``mlxreg`` and ``mstreg``."""
