"""Bit error rates as mlxreg takes them: a mantissa of 4 bits and an exponent of 8, ``3e-4``, exactly or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from pydantic.json_schema import JsonSchemaValue

from fabric.model.fields.scalars import Scalar, refusal

MANTISSA_MOST, EXPONENT_MOST = 15, 255
"""What the fields ber_mantissa and ber_exp of the register PTER hold."""

_TEXT = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_MOST = Fraction(1, 2)  # at 0.5 every bit is a coin toss
_EXPECTED = "a bit error rate from 1e-255 to 0.5, such as 1e-7 or 3e-4"


@dataclass(frozen=True, slots=True, order=True)
class BitErrorRate:
    """*mantissa* x 10^-*exponent*."""

    mantissa: int
    exponent: int

    @property
    def value(self) -> Fraction:
        """The very number."""
        return Fraction(self.mantissa, 10**self.exponent)

    def __str__(self) -> str:
        return f"{self.mantissa}e-{self.exponent}"


@dataclass(frozen=True)
class BitErrorText(Scalar):
    """Reads a bit error rate; one that the register cannot hold is refused with its two neighbours."""

    def parse(self, value: object) -> BitErrorRate:
        """``1e-6`` and ``0.000001`` are 1 and 6; ``2.5e-6`` would need a mantissa of 25."""
        if not isinstance(value, str) or not _TEXT.fullmatch(value):
            raise refusal(_EXPECTED, value)
        wanted = Fraction(value)
        if not Fraction(1, 10**EXPONENT_MOST) <= wanted <= _MOST:
            raise refusal(_EXPECTED, value)
        near = _near(wanted)
        exact = next((rate for rate in near if rate.value == wanted), None)
        if exact is not None:
            return exact
        below = max((rate for rate in near if rate.value < wanted), key=lambda rate: rate.value)
        above = min((rate for rate in near if rate.value > wanted), key=lambda rate: rate.value)
        raise refusal(f"m x 10^-e with a whole m from 1 to {MANTISSA_MOST}", value, hint=f"; write {below} or {above}")

    def json_schema(self) -> JsonSchemaValue:
        """A small number, or the same as text."""
        return {
            "type": ["number", "string"],
            "exclusiveMinimum": 0,
            "maximum": float(_MOST),
            "pattern": f"^{_TEXT.pattern}$",
        }


def _near(wanted: Fraction) -> list[BitErrorRate]:
    """All that can be written about as large as *wanted*, smallest mantissa first: 1e-6 before 10e-7."""
    exponent = len(str(wanted.denominator // wanted.numerator))  # 10^-exponent is at most the number, or a tenth of it
    lowest, highest = max(1, exponent - 1), min(EXPONENT_MOST, exponent + 1)
    rates = [BitErrorRate(m, e) for e in range(lowest, highest + 1) for m in range(1, MANTISSA_MOST + 1)]
    return sorted(rates)
