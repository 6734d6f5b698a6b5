"""Blamed components of one plane as suspects, with evidence in words."""

from __future__ import annotations

import numpy as np

from fabric.analysis.pairs.components import DIRECTIONS, LINKS
from fabric.analysis.pairs.decode import CERTAIN, Blamed
from fabric.analysis.pairs.fitted import Fitted
from fabric.analysis.pairs.samples import UNKNOWN, Bools, Ints
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect

_TEXT = {
    "host": "the host's side: PCIe path, RNIC, cable or leaf port; loopback and port counters tell them apart",
    "host_tx": "what the host sends is slow, what it receives is not: look at its transmit side",
    "host_rx": "what the host receives is slow, what it sends is not: look at its receive side, PCIe and memory first",
    "link": "one uplink of the leaf",
    "link_up": "one uplink of the leaf, in one direction: from the leaf to the spine",
    "link_down": "one uplink of the leaf, in one direction: from the spine to the leaf",
    "leaf": "the leaf switch: every host under it shows it, to every other",
    "spine": "the spine switch: every pair that crosses it is slow",
    "uplinks": "the uplinks of the leaf: which of them is not known, because the path of these tests is not",
}

_NEXT = {
    "host": "loopback on this host, then port counters (mlxlink -d ... -c: BER, width, FEC); swap the cable first",
    "host_tx": "compare transmit counters with the leaf port's receive errors; swap the cable first",
    "host_rx": "check receive counters (out_of_buffer, PCIe width), then the leaf port's transmit side",
    "link": "read both ports of the uplink (BER, width); swap the cable first",
    "link_up": "read what the spine's port receives (BER, symbol errors) and what the leaf's sends; "
    "swap the cable first",
    "link_down": "read what the leaf's port receives (BER, symbol errors) and what the spine's sends; "
    "swap the cable first",
    "leaf": "look at the leaf switch first: all hosts on it show the same",
    "spine": "look at the spine switch and its line card first",
    "uplinks": "read the counters of all uplinks of the leaf, or test them one by one with adaptive routing off",
    "path": "test the two hosts again over a chosen path; read the counters of the switches between them",
}

_FAR = 5.0  # sigmas: chance alone makes one sample in three million so slow
_PATHS_MOST = 20


def suspects_of(fitted: Fitted, where: str) -> list[Suspect]:
    """Every blamed component, then pairs that stay slow although both ends are good. *where* names the plane."""
    found = [_suspect(blamed, fitted, where) for blamed in fitted.decoded.blamed]
    return found + _paths(fitted, where)


def unexplained(fitted: Fitted) -> Bools:
    """Samples that are far too slow and that no blamed component explains."""
    evidence = fitted.evidence
    far = max(_FAR * evidence.noise, evidence.least_loss)
    odd: Bools = evidence.ratio < 1 - fitted.decoded.explained - far
    return odd


def _suspect(blamed: Blamed, fitted: Fitted, where: str) -> Suspect:
    components, samples, evidence = fitted.components, fitted.samples, fitted.evidence
    kind = components.kinds[blamed.component]
    of_it = evidence.samples_of(blamed.component)
    half = 1 - blamed.loss / 2
    slow = int((evidence.ratio[of_it] < half).sum())
    expected = np.median(samples.gbps[of_it] / evidence.ratio[of_it]) if evidence.ratio[of_it].all() else 0.0
    level = f"about {1 - blamed.loss:.0%} of what others reach"
    if expected:
        level = f"about {expected * (1 - blamed.loss):,.0f} of {expected:,.0f} Gb/s (-{blamed.loss:.1%})"
    host = int(components.hosts[blamed.component])
    partners = len(set(samples.a[of_it].tolist()) | set(samples.b[of_it].tolist())) - (host != UNKNOWN)
    said = [
        _TEXT[kind],
        f"{slow} of {len(of_it)} samples through it are slow{where}, with {partners} different hosts: {level}",
        *_by_direction(blamed, fitted),
        f"slowest: {_named(fitted, int(of_it[0]))}",
        f"{blamed.margin:.1f} nats ahead of the next explanation",
    ]
    if host != UNKNOWN and samples.rail is not None:
        kind = "rnic"
    elif kind in LINKS:
        kind = "link"
    return Suspect(
        component=components.names[blamed.component],
        kind="host" if kind.startswith("host") else kind,
        outcome=Outcome.FAIL if blamed.gain >= CERTAIN else Outcome.INCONCLUSIVE,
        confidence=round(blamed.confidence, 2),
        evidence=tuple(said),
        ambiguous_with=tuple(components.names[c] for c in blamed.rivals),
        next_step=_NEXT[components.kinds[blamed.component]],
        hosts=(samples.hosts[host],) if host != UNKNOWN else (),
    )


def _by_direction(blamed: Blamed, fitted: Fitted) -> list[str]:
    """How many samples were slow in each direction of a part, where the directions can be told apart."""
    components, samples, evidence = fitted.components, fitted.samples, fitted.evidence
    mine = np.flatnonzero(components.part == components.part[blamed.component]).tolist()
    said = []
    for one in mine:
        kind = components.kinds[one]
        if kind not in DIRECTIONS:
            continue
        name = components.names[one]
        if kind in LINKS:
            leaf, spine = samples.leaves[components.leaf[one]], samples.spines[components.spine[one]]
            name = f"{leaf}->{spine}" if kind == "link_up" else f"{spine}->{leaf}"
        of_it = evidence.samples_of(one)
        slow = int((evidence.ratio[of_it] < 1 - blamed.loss / 2).sum())
        said.append(f"{name} {slow} of {len(of_it)} slow" if len(of_it) else f"{name} not measured")
    return [f"by direction: {', '.join(said)}"] if said else []


def _named(fitted: Fitted, sample: int) -> str:
    samples = fitted.samples
    arrow = "->" if samples.directed else "-"
    a, b = samples.hosts[samples.a[sample]], samples.hosts[samples.b[sample]]
    return f"{a}{arrow}{b} {samples.gbps[sample]:,.1f} Gb/s"


def of_paths(fitted: Fitted) -> Bools:
    """Samples of pairs that are suspects of their own: of no other trouble, and not slow once."""
    pair, always = _always_slow(fitted)
    found: Bools = np.isin(pair, always)
    return found


def _always_slow(fitted: Fitted) -> tuple[Ints, Ints]:
    """The pair of each sample, and those of which every sample, two at least, is slow and unexplained."""
    samples = fitted.samples
    pair: Ints = np.minimum(samples.a, samples.b) * len(samples.hosts) + np.maximum(samples.a, samples.b)
    odd = unexplained(fitted)
    names, inverse = np.unique(pair, return_inverse=True)
    slow, count = np.bincount(inverse, odd), np.bincount(inverse)
    return pair, names[(slow == count) & (count >= 2)][:_PATHS_MOST]


def _paths(fitted: Fitted, where: str) -> list[Suspect]:
    """Pairs that are always slow: a cell of the matrix, not a row."""
    samples = fitted.samples
    key, always = _always_slow(fitted)
    found = []
    for pair in always.tolist():
        a, b = (samples.hosts[end] for end in divmod(pair, len(samples.hosts)))
        mine = key == pair
        count = int(mine.sum())
        ratio = float(np.median(fitted.evidence.ratio[mine]))
        found.append(
            Suspect(
                component=f"{a}--{b}",
                kind="path",
                outcome=Outcome.FAIL,
                # Laplace: k of k samples slow; with others both ends are good.
                confidence=round((count + 1) / (count + 2), 2),
                evidence=(
                    "what is between these two alone: with others both are good",
                    f"{count} of {count} samples are slow{where}, median {ratio:.0%}",
                ),
                next_step=_NEXT["path"],
                hosts=(a, b),
            )
        )
    return found
