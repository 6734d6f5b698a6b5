"""The kernel's temperature sensors of an RNIC, as the mlx5 driver shows them (linux: mlx5/core/hwmon.c)."""

from __future__ import annotations

from fabric.sim.life.temperature import ASIC, MODULE, Warmth

_STEP = 125  # the register counts eighths of a degree


def hwmon_files(warmth: Warmth, device: str) -> dict[str, str]:
    """File name below ``mlx5_0/device/hwmon/hwmon0/`` to content; temperatures in thousandths of a degree Celsius."""
    asic, module = (warmth.of(device, nature) for nature in (ASIC, MODULE))
    return {
        "name": "mlx5",
        "temp1_label": "asic",
        "temp1_input": str(round(asic * 1000 / _STEP) * _STEP),
        "temp2_label": "Module0",
        "temp2_input": str(round(module * 1000 / _STEP) * _STEP),
    }
