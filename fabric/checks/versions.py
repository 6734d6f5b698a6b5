"""Whether the same program is the same version everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fabric.model.finding import Finding, Severity

NAME = "versions"


def read(by_host: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """*by_host*: version by program by host; whoever has another version than most is named."""
    programs = dict.fromkeys(name for found in by_host.values() for name in found)
    for program in programs:
        counts = Counter(found[program] for found in by_host.values() if program in found)
        usual = min(counts, key=lambda version: (-counts[version], version))
        for host, found in by_host.items():
            version = found.get(program, usual)
            if version != usual:
                yield Finding(
                    NAME,
                    Severity.WARNING,
                    (host,),
                    f"{program} is {version}, elsewhere {usual}",
                    "hosts with other versions are not measured alike"
                    + (", and mpirun may refuse to start on them" if program == "mpirun" else ""),
                    "install the same version on all hosts",
                )
