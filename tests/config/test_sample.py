"""``sample:`` of a scenario file."""

from __future__ import annotations

import pytest

from fabric.config.problems import Problems, report, valid
from fabric.model.sampling import SampleSettings


def test_it_is_decoded_with_its_defaults() -> None:
    """What is left out is on, but for what is dear."""
    entry = valid(SampleSettings, {"every": "60s"})
    assert entry is not None
    assert entry == SampleSettings(every_s=60.0, counters=True, temperatures=True, optics=False)


@pytest.mark.parametrize("tree", [{"every": "0s"}, {"every": "2h"}, {"counters": "yes"}, {"evry": "10s"}])
def test_what_is_wrong_is_refused(tree: dict[str, str]) -> None:
    """One problem each."""
    problems = Problems("s.yaml")
    report(SampleSettings, tree, problems)
    assert len(problems.all()) == 1
