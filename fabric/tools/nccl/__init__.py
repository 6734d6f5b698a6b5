"""nccl-tests: the command line of a collective, and what it printed."""

from fabric.tools.nccl.collective import WARMUP_ITERATIONS, Collective
from fabric.tools.nccl.failures import NcclFailure, blames_fabric, failure_kind
from fabric.tools.nccl.log import NcclLog, NcclRank, NcclTest, parse
from fabric.tools.nccl.rows import NcclPlace, NcclRow

__all__ = [
    "WARMUP_ITERATIONS",
    "Collective",
    "NcclFailure",
    "NcclLog",
    "NcclPlace",
    "NcclRank",
    "NcclRow",
    "NcclTest",
    "blames_fabric",
    "failure_kind",
    "parse",
]
