"""Which names may be of one machine."""

import pytest

from fabric.model.text import other_names


@pytest.mark.parametrize(
    ("names", "repeats"),
    [
        (["gpu003", "GPU003", "gpu003.example.com", "Gpu003."], {"GPU003", "gpu003.example.com", "Gpu003."}),
        (["gpu003.example.com", "gpu003"], {"gpu003.example.com"}),
        (["gpu003.a.net", "GPU003.A.net"], {"GPU003.A.net"}),
        (["gpu003.a.net", "gpu003.b.net", "gpu004"], set()),
        (["10.0.0.1", "10.0.0.2"], set()),
    ],
)
def test_another_case_and_a_domain_more_are_the_same_machine(names, repeats):
    found = other_names(names)
    assert set(found) == repeats
    assert not set(found.values()) & repeats
