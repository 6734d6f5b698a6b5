"""An expectation in words, as it stands at the head of its verdict."""

from __future__ import annotations

from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, PhaseRef, Where
from fabric.model.units import size_text


def words(expected: Expectation) -> str:
    """``degraded / healthy at least 0.9, adaptive_routing=on``; ``flap[adaptive_routing=off]: completes``."""
    if isinstance(expected, ExpectedRatio):
        return _ratio(expected)
    if isinstance(expected, ExpectedEnd):
        return f"{ref_words(expected.phase)}: {'completes' if expected.completes else 'is given up by the transport'}"
    back = f"{expected.fraction:.0%} of its bandwidth"
    return f"{ref_words(expected.phase)}: back to {back} within {expected.within_s:g} s of each change's end"


def bounds_words(expected: ExpectedRatio) -> str:
    """``at least 0.9``, ``at most 1.1``, ``between 0.4 and 0.6``."""
    low, high = expected.at_least, expected.at_most
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


def _ratio(expected: ExpectedRatio) -> str:
    of, over = expected.of, expected.over
    common = tuple(pair for pair in of.where if pair in over.where)
    rest = [PhaseRef(ref.label, tuple(pair for pair in ref.where if pair not in common)) for ref in (of, over)]
    only = [where_words(common)] if common else []
    only += [f"probe {expected.probe}"] if expected.probe is not None else []
    only += [f"size {size_text(expected.size_bytes)}"] if expected.size_bytes is not None else []
    if of.label == over.label and rest[0].where and rest[1].where:
        head = f"{of.label}: {where_words(rest[0].where)} / {where_words(rest[1].where)}"
    else:
        head = " / ".join(ref_words(ref) for ref in rest)
    return ", ".join([f"{head} {bounds_words(expected)}", *only])


def ref_words(ref: PhaseRef) -> str:
    """``degraded[adaptive_routing=on]``."""
    return f"{ref.label}[{where_words(ref.where)}]" if ref.where else ref.label


def where_words(where: Where) -> str:
    """``adaptive_routing=on, rate=1e-5``."""
    return ", ".join(f"{name}={value}" for name, value in where)
