"""What a scenario asks for, written as in the file."""

from fabric.changes.kind import Kind
from fabric.changes.kinds import KINDS
from fabric.model.fields.entry import from_file


def asked(kind: str, **keys: object) -> Kind:
    """One entry of ``changes:`` by its keys; ``for_`` stands for ``for``, a lone value for that of the kind itself."""
    return from_file(KINDS[kind], {name.rstrip("_"): value for name, value in keys.items()})


def ber(*links: str, **keys: object) -> Kind:
    """Bit errors."""
    return asked("ber", links=list(links), **keys)


def link_down(*links: str, **keys: object) -> Kind:
    """Closed links."""
    return asked("link_down", links=list(links), **keys)


def port_flap(*links: str, down: float, **keys: object) -> Kind:
    """Links closed again and again."""
    return asked("port_flap", links=list(links), down=down, **keys)


def routing(on: bool, scope: str = "fabric") -> Kind:
    """Adaptive routing."""
    return asked("adaptive_routing", adaptive_routing=on, scope=scope)


def shield(on: bool) -> Kind:
    """SHIELD."""
    return asked("shield", shield=on, scope="fabric")
