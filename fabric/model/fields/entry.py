"""A mapping in a file as a frozen model: what every kind that brings its own keys is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """A mapping in a file: its keys are the fields, and no other key is allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    why: ClassVar[Mapping[str, str]] = {}
    """Of a required key: what to say after "is required here"."""
