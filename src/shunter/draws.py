"""Random numbers in kernels: hashes of a seed and of what is drawn for, so that the order of draws does not matter.

They calculate with 64 bits and go round.  Plain ``a * b`` must not: numba promises LLVM that whole numbers with a sign
never leave their range, and what LLVM makes of one that does depends on the kernel that it ends up in.
"""

from __future__ import annotations

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numpy as np

from shunter.compiled import kernel


@kernel
def plus(a: int, b: int) -> int:
    """The sum, going round."""
    return np.int64(np.uint64(np.int64(a)) + np.uint64(np.int64(b)))  # type: ignore[return-value]


@kernel
def times(a: int, b: int) -> int:
    """The product, going round."""
    return np.int64(np.uint64(np.int64(a)) * np.uint64(np.int64(b)))  # type: ignore[return-value]


@kernel
def scrambled(number: int) -> int:
    """All bits of the outcome depend on all bits of a number, as at the end of splitmix64."""
    number = times(number ^ (number >> 30), -4658895280553007687)
    number = times(number ^ (number >> 27), -7723592293110705685)
    return number ^ (number >> 31)


@kernel
def mixed(number: int, value: int) -> int:
    """A hash of a number, itself such a hash or 0, and one more value."""
    return scrambled(plus(number ^ value, -7046029254386353131))


@kernel
def next_draw(state: int) -> int:
    """The next state of a sequence of random numbers, from 0 to 2^63 - 1; use its high bits."""
    return plus(times(state, 6364136223846793005), 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
