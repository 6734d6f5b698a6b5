"""The tools that look at ports and change them, by the name they are called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fabric.sim.curl import curl
from fabric.sim.ethtool import ethtool
from fabric.sim.iblinkinfo import ibhosts, iblinkinfo, ibnetdiscover, ibswitches, sminfo
from fabric.sim.ibportstate import ibportstate
from fabric.sim.ibqueryerrors import ibqueryerrors
from fabric.sim.ibroute import ibroute
from fabric.sim.ibstat import ibstat
from fabric.sim.ip_link import ip
from fabric.sim.mlxlink import mlxlink
from fabric.sim.mlxreg import mlxreg
from fabric.sim.nvidia_smi import nvidia_smi
from fabric.sim.nvue import nv
from fabric.sim.perfquery import perfquery
from fabric.sim.port_tool import Tool
from fabric.sim.sm_conf import kill, pidof, pkill, shell_tool, systemctl
from fabric.sim.sysfs import cat

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        "cat": cat,
        "curl": curl,
        "ethtool": ethtool,
        "ibhosts": ibhosts,
        "iblinkinfo": iblinkinfo,
        "ibnetdiscover": ibnetdiscover,
        "ibportstate": ibportstate,
        "ibqueryerrors": ibqueryerrors,
        "ibroute": ibroute,
        "ibstat": ibstat,
        "ibswitches": ibswitches,
        "ip": ip,
        "kill": kill,
        "mlxlink": mlxlink,
        "mlxreg": mlxreg,
        "mstlink": mlxlink,
        "mstreg": mlxreg,
        "nv": nv,
        "nvidia-smi": nvidia_smi,
        "perfquery": perfquery,
        "pgrep": pidof,
        "pidof": pidof,
        "pkill": pkill,
        "sh": shell_tool,
        "sminfo": sminfo,
        "systemctl": systemctl,
    }
)
