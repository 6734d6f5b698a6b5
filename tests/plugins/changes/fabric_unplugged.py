"""A kind of change that somebody else brings: a cable that a person is told to have pulled."""

from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes.link_down import LinkDown
from fabric.model.fields.scalars import Line


class Unplugged(LinkDown):
    """Some cables as if they were pulled, with the ticket of whoever is told so."""

    kind: ClassVar[str] = "unplugged"
    about: ClassVar[str] = "Some cables as if they were pulled."

    ticket: Annotated[str, Line("a ticket", most=64)] = Field(description="Who is told.")

    def __str__(self) -> str:
        return f"unplugged for {self.ticket}"
