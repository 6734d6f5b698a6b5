"""perftest: the command line of ib_write_bw, and what it printed."""

from fabric.tools.perftest.command import PerftestAsked, asked, cut, otherwise, write_bw
from fabric.tools.perftest.failures import PerftestFailure, blames_fabric, complains, failure_kind
from fabric.tools.perftest.log import PerftestLog, PerftestRow, PerftestTest, parse

__all__ = [
    "PerftestAsked",
    "PerftestFailure",
    "PerftestLog",
    "PerftestRow",
    "PerftestTest",
    "asked",
    "blames_fabric",
    "complains",
    "cut",
    "failure_kind",
    "otherwise",
    "parse",
    "write_bw",
]
