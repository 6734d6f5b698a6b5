"""Blamed components of one plane as suspects, with evidence in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import exp, floor, log, log10

import numpy as np

from fabric.judge.locate.pairs.components import LINKS, Components
from fabric.judge.locate.pairs.fitted import DOUBTFUL, Blamed, Fitted
from fabric.judge.locate.structure import HEAVY, UNKNOWN, Bools, Ints
from fabric.model.outcome import Outcome
from fabric.model.text import gbps_text
from fabric.model.text import some as first_of
from fabric.model.verdict import Suspect

_TEXT = {
    "host": "the host's side: PCIe path, RNIC, cable or leaf port; loopback and port counters tell them apart",
    "host_tx": "what the host sends is slow, what it receives is not: look at its transmit side",
    "host_rx": "what the host receives is slow, what it sends is not: look at its receive side, PCIe and memory first",
    "link": "one uplink of the leaf",
    "link_up": "one uplink of the leaf, in one direction: from the leaf to the spine",
    "link_down": "one uplink of the leaf, in one direction: from the spine to the leaf",
    "core": "the core switch: every pair that crosses it is slow",
    "leaf": "the leaf switch: every host under it shows it, to every other",
    "spine": "the spine switch: every pair that crosses it is slow",
    "spines": "what is between the leaves: a spine, or a cable to it; which is not known, because the path is not",
    "cores": "what is between the pods: a core, or a cable to it; which is not known, because the path is not",
    "path": "what is between these two alone: with others both are good",
    "uplinks": "the uplinks of the leaf: which of them is not known, because the path of these tests is not",
    "all_uplinks": "all uplinks of the leaf: every pair that crosses one of them is slow, pairs under the leaf are not",
    "uplinks_up": "one uplink of the leaf, in what the leaf sends: which is not known, because the path is not",
    "uplinks_down": "one uplink of the leaf, in what the leaf receives: which is not known, because the path is not",
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
    "core": "look at the core switch and its line card first",
    "spines": "read the counters of the spines' ports (or of both ends of each uplink); measure the same pairs "
    "again, as each draw takes another way, or test with static routes",
    "cores": "read the counters of the cores' ports (or of both ends of each cable to them); measure the same pairs "
    "again, as each draw takes another way, or test with static routes",
    "uplinks": "read the counters of all uplinks of the leaf, or test them one by one with adaptive routing off",
    "all_uplinks": "look at the uplink ports of the leaf switch: speed, lanes, settings that they share",
    "uplinks_up": "read what the spines' ports to the leaf receive (BER, symbol errors); swap that cable first",
    "uplinks_down": "read what the leaf's uplink ports receive (BER, symbol errors); swap that cable first",
    "path": "test the two hosts again over a chosen path; read the counters of the switches between them",
}

FAR = 5.0
"""Sigmas from which a sample is far too slow: with light tails, chance makes one sample in three million so slow."""

FAR_HEAVY = 8.0
"""The same where tails are heavy (one in a thousand, Student's t with 4 degrees of freedom)."""

NAMES_MOST = 6
"""The most names in a line."""

some = partial(first_of, most=NAMES_MOST)
"""The first names as text, with how many more there are."""

_TELLS = 3.0  # sigmas between two losses that one sample tells apart
_ODDS_LEAST, _ODDS_MOST = 1.5, 1e6  # odds between these are written as a number (choices)


def _words(texts: Mapping[str, str], component: int, components: Components) -> str:
    """Return the text for a component; for cables above the spines it names the switches one level higher."""
    kind = components.kinds[component]
    text = texts[kind]
    if kind in LINKS and components.leaf[component] == UNKNOWN:
        return text.replace("spine", "core").replace("leaf", "spine")
    return text


def suspects_of(fitted: Fitted) -> list[Suspect]:
    """Return every blamed component of one plane as a suspect, each with its slow probes."""
    return [_suspect(blamed, fitted) for blamed in fitted.blamed]


_SHARED = "its slow samples may be dips of many parts: measure it again"


def possible(component: int, slow: Ints, fitted: Fitted) -> Suspect:
    """Return a suspect for a component that *slow* samples share beyond chance; its fault is no likelier than dips."""
    loss = 1 - float(np.median(fitted.ratio[slow]))
    return _suspect(Blamed(component, loss, 0.0, DOUBTFUL, (), 0.0, _SHARED), fitted)


def pair_suspect(
    a: str, b: str, count: int, *, evidence: Sequence[str], next_step: str, doubts: Sequence[str] = ()
) -> Suspect:
    """
    Return a suspect for two hosts that are bad only with each other, in all of *count* samples.

    It is INCONCLUSIVE where *doubts* say why they may be good.
    """
    return Suspect(
        component=f"{a}--{b}",
        kind="path",
        outcome=Outcome.INCONCLUSIVE if doubts else Outcome.FAIL,
        confidence=round((count + 1) / (count + 2), 2),  # Laplace: count of count
        evidence=(*evidence, *doubts),
        next_step=next_step,
        hosts=(a, b),
    )


def unexplained(fitted: Fitted) -> Bools:
    """Return which samples are far too slow with no blamed component, or others on the same cable, to explain it."""
    noise = np.array([one.noise for one in fitted.classes])[fitted.of_class]
    far = np.maximum(sigmas_of(fitted) * noise, fitted.floor)
    return (fitted.ratio < 1 - fitted.explained - far) & ~fitted.together


def sigmas_of(fitted: Fitted) -> float:
    """Return from how many sigmas on a single sample is no chance, with the tails that the noise has."""
    return FAR if fitted.degrees > HEAVY else FAR_HEAVY


def good_again(fitted: Fitted, slow: Bools) -> Bools:
    """
    Return which *slow* samples are beside enough good ones over the same way: another test would tell nothing new.

    Of several samples the median counts, of two the higher, as against a limit.
    """
    samples = fitted.samples
    ways = samples.same_way
    if not samples.tells_ways:  # neither end is known to have sent
        ways = np.where(samples.drawn, -1 - ways, samples.pair)
    _, way = np.unique(ways, return_inverse=True)
    found: Bools = slow & (np.bincount(way, slow) <= np.bincount(way) // 2)[way]
    return found


def _suspect(blamed: Blamed, fitted: Fitted) -> Suspect:
    components, samples, ids = fitted.components, fitted.samples, fitted.samples.probe_ids
    kind, host = components.kinds[components.part[blamed.component]], int(components.hosts[blamed.component])
    of_it, tells, slow = _through(blamed, blamed.component, fitted)
    partners = len(set(samples.a[of_it].tolist()) | set(samples.b[of_it].tolist())) - (host != UNKNOWN)
    left, first = int(tells.sum()), of_it[0]
    counts = f"{slow.sum()} of {left} samples through it are slow{samples.where}"
    counts += f", with {partners} different hosts" if kind != "path" else ""
    hidden = len(of_it) - left
    arrow = "->" if samples.directed else "-"
    slowest = f"{samples.hosts[samples.a[first]]}{arrow}{samples.hosts[samples.b[first]]}"
    evidence = (
        _words(_TEXT, blamed.component, components),
        f"{counts}: {_level(blamed, fitted, of_it, tells)}",
        *([f"{hidden} more samples through it are as slow because of other suspects"] if hidden else []),
        *_by_direction(blamed, fitted),
        f"slowest: {slowest} {gbps_text(samples.gbps[first])} Gb/s",
        likelier(blamed.margin),
        *([f"perhaps no fault: {blamed.doubt}"] if blamed.doubt else []),
    )
    as_said = {"host": "host" if samples.rail is None else "rnic", "all_uplinks": "uplinks"}
    return Suspect(
        component=components.names[blamed.component],
        kind=as_said.get(kind, kind),
        outcome=Outcome.FAIL if blamed.certain else Outcome.INCONCLUSIVE,
        confidence=round(blamed.confidence, 2),
        evidence=evidence,
        ambiguous_with=tuple({components.names[c]: None for c in blamed.rivals}),
        next_step=_words(_NEXT, blamed.component, components),
        hosts=_hosts(blamed, host, fitted),
        probes=tuple(ids[i] for i in of_it.tolist() if ids and fitted.ratio[i] < 1 - blamed.loss / 2),
    )


def _hosts(blamed: Blamed, host: int, fitted: Fitted) -> tuple[str, ...]:
    """Return the *host* that a component belongs to; for a path both ends."""
    samples = fitted.samples
    if fitted.components.kinds[blamed.component] == "path":
        one = fitted.through(blamed.component)[0]
        return tuple(samples.hosts[end] for end in sorted((samples.a[one], samples.b[one])))
    return (samples.hosts[host],) if host != UNKNOWN else ()


def _through(blamed: Blamed, component: int, fitted: Fitted) -> tuple[Ints, Bools, Bools]:
    """
    Return the samples through a component, which of them tell of *blamed*, and which are slow as it makes them.

    Samples that other suspects hold down as far, or nearly, tell nothing of it (unless there are no others). Of the
    rest, a sample is slow when it is nearer to the loss of *blamed* than to what the others explain.
    """
    part, of_it = fitted.components.part, fitted.through(component)
    others = np.zeros(len(fitted.ratio))
    for one in fitted.blamed:
        if part[one.component] != part[blamed.component]:
            mine = fitted.through(one.component)
            others[mine] = np.maximum(others[mine], one.loss)
    others = others[of_it]
    tells: Bools = (others == 0) | (blamed.loss - others > _TELLS * fitted.noise)
    tells = tells if tells.any() else blamed.loss > others
    return of_it, tells, tells & (fitted.ratio[of_it] < 1 - (blamed.loss + others) / 2)


def _level(blamed: Blamed, fitted: Fitted, of_it: Ints, tells: Bools) -> str:
    """Return in words what samples through a part reach of what good ones do, each class against its own level."""
    samples = fitted.samples
    if not samples.gbps[of_it].all():
        return f"about {1 - blamed.loss:.0%} of what others reach"
    mine = fitted.of_class[of_it]
    numbers = np.unique(mine).tolist()
    if len(numbers) == 1:
        expected = float(np.median(samples.gbps[of_it] / fitted.ratio[of_it]))
        reached = gbps_text(expected * (1 - blamed.loss), 0)
        return f"about {reached} of {gbps_text(expected, 0)} Gb/s (-{blamed.loss:.1%})"
    levels = []
    for number in numbers:
        some_of_it = of_it[(mine == number) & tells]
        some_of_it = some_of_it if len(some_of_it) else of_it[mine == number]
        reached, ratio = gbps_text(np.median(samples.gbps[some_of_it]), 0), float(np.median(fitted.ratio[some_of_it]))
        wanted = gbps_text(fitted.classes[number].gbps, 0)
        levels.append(f"{reached} of {wanted} Gb/s ({ratio - 1:+.1%}) {fitted.classes[number].name}")
    return f"about {', '.join(levels)}"


def _by_direction(blamed: Blamed, fitted: Fitted) -> list[str]:
    """Return in a line how many samples were slow in each direction of a part, where directions can be told apart."""
    components, texts = fitted.components, []
    for one in np.flatnonzero(components.part == components.part[blamed.component]).tolist():
        kind, name = components.kinds[one], components.names[one]
        if one == components.part[one]:  # no direction, but both
            continue
        if kind in LINKS:
            lower, upper = name.split("--")
            name = f"{lower}->{upper}" if kind == "link_up" else f"{upper}->{lower}"
        elif kind.startswith("uplinks_"):
            name = kind.removeprefix("uplinks_")
        of_it, tells, slow = _through(blamed, one, fitted)
        if tells.any():
            texts.append(f"{name} {slow.sum()} of {tells.sum()} slow")
        else:
            texts.append(f"{name} {'hidden by other suspects' if len(of_it) else 'not measured'}")
    return [f"by direction: {', '.join(texts)}"] if texts else []


def likelier(margin: float) -> str:
    """Return in words how far a part leads, from *margin* nats (the natural logarithm of the odds, priors included)."""
    odds = exp(min(max(margin, 0.0), log(_ODDS_MOST)))
    if odds < _ODDS_LEAST:
        odds_text = "hardly likelier than the next explanation"
    elif odds >= 0.99 * _ODDS_MOST:
        odds_text = f"more than {_ODDS_MOST:,.0f} times likelier than the next explanation"
    else:
        digits = max(floor(log10(odds)) - 1, 0)
        odds_text = f"about {round(odds / 10**digits) * 10**digits:,} times likelier than the next explanation"
    return f"{odds_text} (margin {margin:.1f} nats)"
