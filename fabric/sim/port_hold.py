"""Why a port that is open does not come up."""

from __future__ import annotations

ERRORS = "errors"
"""What it sends, or receives, is too wrong to train on."""

ISOLATED = "isolated"
"""A manager above the fabric keeps it out."""
