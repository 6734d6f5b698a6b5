"""What a job that hangs leaves: NCCL RAS, PyTorch's flight recorder, logs. Which of them a file is, and its reader."""

from __future__ import annotations

import orjson

from fabric.errors import UnreadableOutput
from fabric.model.hang import JobEvidence
from fabric.tools.hang import flight_recorder, logs, ras

EXPECTED = "a dump of PyTorch's flight recorder (pickle or JSON), an answer of NCCL RAS, or a log of NCCL or PyTorch"


def read(data: bytes, file_name: str) -> JobEvidence | None:
    """What a file tells; None for one that is none of these. UnreadableOutput for one that is, and is damaged."""
    if data.startswith(b"\x80") and len(data) > 1 and data[1] <= 5:
        return flight_recorder.parse_pickle(data, file_name)
    text = data.decode("utf-8-sig", "replace")
    if text.lstrip().startswith("{"):
        return _json(text, file_name)
    if ras.MARK.search(text):
        return ras.parse_text(text)
    return logs.parse(text) if logs.MARK.search(text) else None


def _json(text: str, file_name: str) -> JobEvidence | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as wrong:
        try:
            document = orjson.loads(ras.mended(text))
        except orjson.JSONDecodeError:
            raise UnreadableOutput(f"JSON that is cut or damaged: {wrong}") from None
    if ras.is_status(document):
        return ras.parse_json(document)
    return flight_recorder.parse_json(document, file_name) if flight_recorder.is_dump(document) else None
