"""The two ways in which shunter uses numba.

``kernel`` compiles a function on first use and keeps the machine code on disk.  ``pointer`` compiles a function for one
fixed signature, so that it can be handed to a kernel as an argument: one loop serves every order and placer.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])
MONTH = 30 * 86_400
# Rooms above every kernel: nothing compiled can depend on them (imports point downwards), so an edit there compiles nothing.
WITHOUT_KERNELS = ("advice", "cli", "reproduce", "slurm", "testing", "tune")

# `_nrt=False`: kernels own no memory, so numba need not count references to the arrays it passes around, which
# otherwise costs more than the kernels do. A kernel that allocates does not compile; the arrays are made in Python.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


@cache
def cache_folder() -> Path:
    """Where machine code is kept: one folder per state of shunter's sources.

    Numba notices a change in a kernel's own file only, not in those that it calls; with stale callees it would crash.
    The environment variable SHUNTER_KERNELS names another place than the user's cache.
    """
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(package.rglob("*.py")):
        if source.relative_to(package).parts[0] not in WITHOUT_KERNELS:
            digest.update(source.read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("SHUNTER_KERNELS") or caches / "shunter" / "kernels") / digest.hexdigest()
    try:
        if not folder.exists():
            _forget_old(folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"shunter-kernels-{os.getuid()}" / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _forget_old(folder: Path) -> None:
    """Delete what sources of more than a month ago were compiled to."""
    if folder.exists():
        for old in folder.iterdir():
            if time.time() - old.stat().st_mtime > MONTH:
                shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _our_cache() -> Iterator[None]:
    """Numba decides where to cache when a function is decorated; only for ours it is our folder."""
    theirs = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = theirs


def kernel(function: F) -> F:
    """Compile ``function`` lazily; it releases the GIL and is cached on disk. No fast-math: digests must agree."""
    with _our_cache():
        return cast(F, numba.njit(nogil=True, **OPTIONS)(function))


def pointer(function: Callable[..., Any], signature: Any) -> Any:
    """``function`` as a first-class function of ``signature``, to be passed to a kernel.

    Only ours are kept on disk: what others write may use things of theirs whose change numba would not notice.
    """
    plain = getattr(function, "py_func", function)
    ours = plain.__module__.partition(".")[0] == __name__.partition(".")[0]
    with _our_cache():
        return numba.cfunc(signature, nopython=True, **(OPTIONS | {"cache": ours}))(plain)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile in here: without the garbage collector, which would go through the compiler's heap again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@kernel
def copy_into(target: Any, source: Any) -> None:
    """``target[:] = source`` for one dimension; numba's own would allocate in case the two overlap."""
    for i in range(len(target)):
        target[i] = source[i]
