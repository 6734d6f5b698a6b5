"""The tables of a run as pandas frames (``fabric.load``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.runs.tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def _table(name: str) -> cached_property[pd.DataFrame]:
    """Return a property with one of the frames, read when it is first asked for."""
    return cached_property(lambda run: run.frame(name))


@dataclass(frozen=True, eq=False)
class Run:
    """
    What one run measured and found, *path* its directory; each frame is read when it is first asked for.

    Column, type and unit; what each means is in docs/data.md. What is missing is NA.

    *samples* (measurements.parquet): a number of a probe, or why there is none.

    =============  ====================  ==================
    probe          category
    phase          category
    round          Int64
    repeat         Int64
    kind           category
    series         category
    link_class     category
    host           category
    peer_host      category
    hosts          category
    rnic           category
    peer_rnic      category
    endpoint       category
    op             category
    size_bytes     Int64                 bytes
    began_s        float64               s
    ended_s        float64               s
    at             datetime64[us, UTC]   UTC
    gbps           float64               Gb/s
    us             float64               us
    required_gbps  float64               Gb/s
    normal_gbps    float64               Gb/s
    share          float64               gbps / normal_gbps
    outcome        category
    reason         category
    failure        category
    change         category
    =============  ====================  ==================

    *parts* (parts.parquet): a part that a probe passes through.

    =============  ====================  ==================
    probe          category
    part           category
    direction      category
    =============  ====================  ==================

    *counters* (counters.parquet): a reading of a counter or sensor that was another than the one before.

    =============  ====================  ==================
    at_s           float64               s
    at             datetime64[us, UTC]   UTC
    host           category
    part           category
    name           category
    value          float64               as unit says
    unit           category
    delta          float64               as unit says
    =============  ====================  ==================

    *links* (links.parquet): one end of a cable.

    ===============================  ====================  ==================
    part                             category
    node                             category
    port                             category
    peer_node                        category
    peer_port                        category
    rack                             category
    state                            category
    width                            Int64                 lanes
    lane_gbps                        float64               Gb/s
    speed_gbps                       float64               Gb/s
    sent_gbps                        float64               Gb/s
    began_s                          float64               s
    ended_s                          float64               s
    symbol_error                     Int64
    link_error_recovery              Int64
    link_downed                      Int64
    port_rcv_errors                  Int64
    port_xmit_discards               Int64
    local_link_integrity_errors      Int64
    excessive_buffer_overrun_errors  Int64
    port_xmit_wait                   Int64
    rx_crc_errors                    Int64
    raw_ber                          float64               ratio
    effective_ber                    float64               ratio
    full_blocks                      Int64
    worst_block                      Int64                 symbols
    rx0_dbm                          float64               dBm
    rx1_dbm                          float64               dBm
    rx2_dbm                          float64               dBm
    rx3_dbm                          float64               dBm
    tx0_dbm                          float64               dBm
    tx1_dbm                          float64               dBm
    tx2_dbm                          float64               dBm
    tx3_dbm                          float64               dBm
    rx_low_dbm                       float64               dBm
    rx_high_dbm                      float64               dBm
    tx_low_dbm                       float64               dBm
    tx_high_dbm                      float64               dBm
    module_c                         float64               C
    vendor                           category
    part_number                      category
    serial                           category
    firmware                         category
    outcome                          category
    ===============================  ====================  ==================

    *changes* (changes.parquet): a state that a change came to.

    =============  ====================  ==================
    change         category
    phase          category
    kind           category
    part           category
    state          category
    at_s           float64               s
    at             datetime64[us, UTC]   UTC
    =============  ====================  ==================

    *suspects* (suspects.parquet): a suspect of the verdict.

    =============  ====================  ==================
    part           category
    kind           category
    outcome        category
    confidence     float64               0 to 1
    loss           float64               0 to 1
    worst_gbps     float64               Gb/s
    normal_gbps    float64               Gb/s
    rate           float64               0 to 1
    since_s        float64               s
    rivals         category
    serial         category
    rack           category
    leaf_port      category
    next_step      category
    =============  ====================  ==================
    """

    path: Path
    _tables: Callable[[str], pa.Table] | None = field(default=None, repr=False)  # None: read them from files

    samples = _table("samples")
    """One row for each number of a probe, or for the reason why it has none."""
    parts = _table("parts")
    """One row for each part that a probe passes through."""
    counters = _table("counters")
    """One row for each reading of a counter or sensor that differs from the one before."""
    links = _table("links")
    """One row for each end of a cable."""
    changes = _table("changes")
    """One row for each state that a change entered."""
    suspects = _table("suspects")
    """One row for each suspect of the verdict."""

    def frame(self, name: str) -> pd.DataFrame:
        """Return the frame of a table, read anew."""
        import pandas as pd
        import pyarrow as pa

        made = read_table(self.path, name) if self._tables is None else self._tables(name)
        return made.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get, split_blocks=True)
