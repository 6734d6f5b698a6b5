"""Whether the firmware would keep a link up that is to be closed: looked at before anything is altered."""

from __future__ import annotations

from fabric.changes.kind import Context
from fabric.changes.look import look, program
from fabric.changes.ports import AdapterEnd, ethernet
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.tools import mlxconfig

_NOT_FOUND = 127


def refuse_kept_up(by: str, end: AdapterEnd, context: Context) -> Procedure[None]:
    """
    Raise Refused when the firmware keeps this port up, ToolError when what it says cannot be read.

    Of ways that close the RNIC's own end (mlxlink, mlxreg, ip): a switch that closes its end does not ask the RNIC.
    Where there is no mlxconfig, nothing is known: then what is read back after the change decides.
    """
    setting = mlxconfig.keep_link_up(ethernet=ethernet(end.name, context), port=end.port)
    argv = mlxconfig.query(end.device, setting, tool=program(context, end.host, "mlxconfig"))
    said = yield from look(context, end.host, argv)
    if said[2] == _NOT_FOUND or (said[2] != 0 and "command not found" in said[1]):  # sudo says 1 of what is not there
        return
    if mlxconfig.read(setting, *said):
        raise Refused(
            f"{end}: the firmware keeps its link up ({setting}), so that {by} would close nothing: mlxconfig -d "
            f"{end.device} set {setting}=0, then reset the adapter (mlxfwreset) or reboot; or close it at the switch"
        )
