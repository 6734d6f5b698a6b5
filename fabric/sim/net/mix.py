"""The integer mix of fabric.sim.hashing for whole arrays: same words, many at a time."""

from __future__ import annotations

import numpy as np

from fabric.sim.net.arrays import Ints, Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_ONE = np.uint64(1)
_WORD = (1 << 64) - 1


def mix64(words: Words) -> Words:
    """Scramble each of *words* (the finaliser of SplitMix64, Steele et al. 2014)."""
    words = (words ^ (words >> _S30)) * _M1
    words = (words ^ (words >> _S27)) * _M2
    return words ^ (words >> _S31)


def mixed(salt: int, *keys: Ints) -> Words:
    """One word for each row of *keys*; another *salt* gives words that have nothing to do with these."""
    state = np.full(np.broadcast(*keys).shape, salt & _WORD, dtype=np.uint64)
    for key in keys:
        state = mix64(state + _GOLDEN * (key.astype(np.uint64) + _ONE))
    return state


def choice(words: Words, options: int) -> Ints:
    """Which of *options* each word stands for."""
    return (words % np.uint64(options)).astype(np.int64)
