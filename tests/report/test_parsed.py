"""What ``fabric parse`` shows of a log."""

from __future__ import annotations

from fabric.report.parsed import parsed_document, parsed_lines


def test_nothing_of_the_tool_is_said() -> None:
    """A file without any output of the tool is not silently fine."""
    document = parsed_document("perftest", "hello")
    assert list(parsed_lines(document, "f")) == ["f: no perftest output found"]
