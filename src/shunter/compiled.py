"""The two ways in which shunter uses numba.

``kernel`` compiles a function on first use and keeps the machine code on disk.  ``pointer`` compiles a function for one
fixed signature, so that it can be handed to a kernel as an argument: one compiled loop then serves every order and placer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


# `_nrt=False`: kernels own no memory, so numba need not count references to the arrays it passes around, which otherwise
# costs ten times what the kernels do. A kernel that allocates does not compile; the arrays are made in Python.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def kernel(function: F) -> F:
    """Compile ``function`` lazily; it releases the GIL and is cached on disk. No fast-math: digests must agree."""
    return cast(F, numba.njit(nogil=True, **OPTIONS)(function))


def pointer(function: Callable[..., Any], signature: Any) -> Any:
    """``function`` as a first-class function of ``signature``, to be passed to a kernel."""
    plain = getattr(function, "py_func", function)
    return numba.cfunc(signature, nopython=True, **OPTIONS)(plain)


@kernel
def copy_into(target: Any, source: Any) -> None:
    """``target[:] = source`` for one dimension; numba's own would allocate in case the two overlap."""
    for i in range(len(target)):
        target[i] = source[i]
