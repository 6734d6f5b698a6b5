"""Names that may be of one machine: DNS knows no case, and a name may be written with its domain or without."""

from collections.abc import Iterable, Mapping


def other_names(names: Iterable[str]) -> Mapping[str, str]:
    """
    Return for each name that may be of the same machine as another one of *names* the one that it repeats.

    That is the first name in other case, or the one without the domain. Two names with unlike domains are two machines.
    """
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(_plain(name), name)
    found = {}
    for name in names:
        plain = _plain(name)
        other = first.get(plain.partition(".")[0], first[plain])
        if other != name:
            found[name] = other
    return found


def _plain(name: str) -> str:
    return name.rstrip(".").lower()
