"""The two ways in which shunter uses numba.

``kernel`` compiles a function on first use and keeps the machine code on disk.  ``pointer`` compiles a function for one
fixed signature, so that it can be handed to a kernel as an argument: one loop serves every order and placer.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numba
from numba.core import caching, ccallback, dispatcher, event
from numba.core.compiler import Compiler

from shunter import caches, lowered, notices, numba_errors

F = TypeVar("F", bound=Callable[..., Any])
MONTH = 30 * 86_400
VARIABLE = "SHUNTER_KERNELS"  # the environment variable that names another place than the user's cache
TRANSLATED = "translated"  # the folder for what only kernels call, in the folder of kernels
OURS = re.compile(r"[0-9a-f]{16}")  # the name of a folder of kernels
# Rooms above every kernel. Imports point downwards, so no kernel depends on them, and an edit there compiles nothing.
WITHOUT_KERNELS = (
    "adapting", "advice", "cli", "generating", "live", "precompile.py", "report/html", "report/terminal", "reproduce",
    "slurm", "sweeps", "testing", "tuning", "web",
)  # fmt: skip

# `_nrt=False`: kernels own no memory, so numba need not count references to the arrays it passes around, which
# otherwise costs more than the kernels do. A kernel that allocates does not compile; the arrays are made in Python.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


@cache
def sources_digest() -> str:
    """A hash of all sources that kernels can depend on.

    Numba notices a change in a kernel's own file only, not in those that it calls; with stale callees it would crash.
    """
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    left_out = {package / room for room in WITHOUT_KERNELS}
    for source in sorted(package.rglob("*.py")):
        if left_out.isdisjoint((source, *source.parents)):
            digest.update(source.read_bytes())
    return digest.hexdigest()


class KernelFolder(NamedTuple):
    """Where machine code is kept."""

    folder: Path
    problem: str = ""  # why it is gone when this process ends; "": it stays


@cache
def place() -> KernelFolder:
    """One folder per state of shunter's sources, which only this account can write to.

    It is in the user's cache, or where the environment variable SHUNTER_KERNELS says; if neither is private, in a
    temporary folder, which processes started from this one share.
    """
    try:
        parent = caches.user_folder("kernels", VARIABLE)
        return KernelFolder(_prepared(parent))
    except caches.NotPrivateError as error:
        parent = caches.temporary("shunter-kernels-")
        os.environ[VARIABLE] = str(parent)
        return KernelFolder(_prepared(parent), str(error))


def cache_folder() -> Path:
    """Where machine code is kept."""
    return place().folder


def installed_folder() -> Path:
    """The folder, beside the sources, where an installation keeps compiled kernels for all accounts."""
    return Path(__file__).parent / "__kernels__" / sources_digest()


def _prepared(parent: Path) -> Path:
    """The folder for the present sources; a new one begins with the kernels that were compiled at installation."""
    folder = caches.private(parent / sources_digest())
    if not any(folder.iterdir()):
        _forget_old(parent)
        _copy_installed(folder)
    return folder


def _copy_installed(folder: Path) -> None:
    """Take what was compiled at installation, if only accounts that can change the sources could have changed it."""
    owners = frozenset({os.geteuid(), caches.ROOT, Path(__file__).stat().st_uid})
    if caches.trusted(installed_folder(), owners):
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
        shutil.copytree(installed_folder(), part, dirs_exist_ok=True, copy_function=shutil.copyfile)
        part.chmod(0o700)
        try:
            part.rename(folder)  # whole: another process may begin at the same time
        except OSError:
            shutil.rmtree(part)


def _forget_old(parent: Path) -> None:
    """Delete what sources of more than a month ago were compiled to, and nothing else that may lie there."""
    for old in parent.iterdir():
        if OURS.fullmatch(old.name) and time.time() - old.stat().st_mtime > MONTH:
            shutil.rmtree(old, ignore_errors=True)


class _Announcing(event.Listener):  # type: ignore[misc]
    """Passes on which kernel numba compiles; those that another one calls are compiled within it.

    Functions of third parties are not announced: every command compiles them, and quickly.
    """

    def __init__(self) -> None:
        self._depth = 0

    def on_start(self, event: Any) -> None:
        self._depth += 1
        function = event.data["dispatcher"].py_func
        if is_ours(function):
            notices.compiling.get()(str(function.__name__))

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth:
            notices.compiling.get()("")


event.register("numba:compile", _Announcing())


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """Machine code on disk, if there is room for it: a kernel that can't be kept is compiled again the next time."""

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _not_kept(error.strerror or str(error))


@cache
def _not_kept(why: str) -> None:
    """Say once why kernels are not kept."""
    notices.problem.get()(
        f"compiled kernels can't be kept in {cache_folder().parent}: {why}; make room, or set {VARIABLE}"
    )


@contextmanager
def _our_cache(part: str = "") -> Iterator[None]:
    """Numba decides where and how to cache when a function is decorated; only for ours it is in our folder."""
    theirs = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder() / part)
    dispatcher.FunctionCache = ccallback.FunctionCache = _Kept  # type: ignore[attr-defined]
    try:
        yield
    finally:
        numba.config.CACHE_DIR = theirs
        dispatcher.FunctionCache = ccallback.FunctionCache = caching.FunctionCache  # type: ignore[attr-defined]


def kernel(function: F) -> F:
    """Compile ``function`` lazily; it releases the GIL and is cached on disk. No fast-math: digests must agree."""
    return _kernel(function)


def inlined(function: F) -> F:
    """A kernel that becomes a part of each kernel that calls it, without what that one doesn't need of it."""
    return _kernel(function, forceinline=True)


def _kernel(function: F, **options: bool) -> F:
    with _our_cache():
        made = numba.njit(nogil=True, pipeline_class=lowered.KernelCompiler, **OPTIONS)(function)
    if not numba.config.DISABLE_JIT:
        lowered.called_through(made, lambda: inner(function, **options))
    return cast(F, made)


@cache
def inner(function: Callable[..., Any], **options: bool) -> Any:
    """``function`` as kernels call it."""
    plain = getattr(function, "py_func", function)
    if numba.config.DISABLE_JIT:
        return plain
    with _our_cache(TRANSLATED):
        return lowered.translate(plain, OPTIONS | {"nogil": True} | options, whole=not is_ours(plain))


def with_names(function: Callable[..., Any], name: str, module: str, **names: Any) -> Callable[..., Any]:
    """A copy of ``function`` for which some names of its module stand for something else.

    Its name and module tell it from other copies, on disk too, and say whose it is.
    """
    copy = types.FunctionType(function.__code__, function.__globals__ | names | {"__name__": module})
    copy.__qualname__ = name
    return copy


def entry(made: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of a kernel for arguments of these types.

    A call through the kernel itself looks at the types of all arguments each time; with functions among them that takes
    longer than many a kernel.
    """
    if numba.config.DISABLE_JIT:
        return cast(Callable[..., Any], made)
    kinds = tuple(map(made.typeof_pyval, arguments))
    known = made.overloads.get(kinds)
    return cast(Callable[..., Any], made.compile(kinds) if known is None else known.entry_point)


def pointer(function: Callable[..., Any], signature: Any) -> Any:
    """``function`` as a first-class function of ``signature``, to be passed to a kernel.

    Only ours are kept on disk: what others write may use things of theirs whose change numba would not notice.
    """
    plain = getattr(function, "py_func", function)
    if numba.config.DISABLE_JIT:  # for debugging: all of it is plain Python, typed where numba needs types
        plain.__dict__["_numba_type_"] = numba.types.FunctionType(signature)
        return plain
    ours = is_ours(plain)
    try:
        with _our_cache():
            compiler = lowered.KernelCompiler if ours else Compiler
            return numba.cfunc(signature, pipeline_class=compiler, nopython=True, **(OPTIONS | {"cache": ours}))(plain)
    except Exception as error:
        if ours:
            raise
        raise numba_errors.explained(plain, signature, error) from None


def with_bounds(function: Callable[..., Any], signature: Any) -> Any:
    """``function`` compiled so that Python can call it and a read beyond an array is an IndexError."""
    plain = getattr(function, "py_func", function)
    try:
        with notices.silently():  # no kernel, and quick
            return numba.njit(signature, boundscheck=True, **(OPTIONS | {"cache": False}))(plain)
    except Exception as error:
        raise numba_errors.explained(plain, signature, error) from None


def is_ours(thing: Any) -> bool:
    """Whether a function or class is part of shunter."""
    return str(thing.__module__).partition(".")[0] == __name__.partition(".")[0]


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
