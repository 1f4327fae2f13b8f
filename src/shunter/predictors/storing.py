"""Fitted models as files, and a cache of them.

A file is a zip of arrays, one of them a JSON text with all the rest, and a checksum of everything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from shunter import caches
from shunter.errors import ModelError
from shunter.files import whole
from shunter.predictors.fitted import Fitted
from shunter.predictors.throughput import Forecaster
from shunter.predictors.trees import Trees

FORMAT = 2
KINDS: dict[str, type[Any]] = {"duration": Fitted, "throughput": Forecaster}
MONTH_S = 30 * 86_400
_AGAIN = "make it anew with 'shunter predict fit'"

T = TypeVar("T", Fitted, Forecaster)


def save(fitted: Fitted | Forecaster, path: Path) -> None:
    """Write a model to one file, whole or not at all."""
    kind = next(name for name, cls in KINDS.items() if isinstance(fitted, cls))
    header: dict[str, Any] = {"kind": kind, "format": FORMAT}
    arrays: dict[str, Any] = {}
    for field in dataclasses.fields(fitted):
        value = getattr(fitted, field.name)
        if isinstance(value, Trees):
            arrays |= {f"{field.name}.{part}": getattr(value, part) for part in Trees.fields}
        elif isinstance(value, np.ndarray):
            arrays[field.name] = value
        else:
            header[field.name] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays["checksum"] = np.frombuffer(_checksum(arrays), np.uint8)
    with whole(path, ModelError) as made, made.open("wb") as file:
        np.savez(file, **arrays)


def load(path: Path) -> Fitted | Forecaster:
    """Read a model; what can't be used is refused with what to do about it."""
    try:
        content = io.BytesIO(path.read_bytes())
        if not zipfile.is_zipfile(content):
            raise zipfile.BadZipFile("it is no zip")
        with np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        intact = arrays["checksum"].tobytes() == _checksum(arrays)
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file; {_AGAIN}") from None
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: is not a model, or only a part of one ({error}); {_AGAIN}") from None
    if header.get("format") != FORMAT or header.get("kind") not in KINDS:
        raise ModelError(
            f"{path}: must be a model of format {FORMAT}, got {header.get('kind')} of format {header.get('format')}, "
            f"which another version of shunter wrote; {_AGAIN}"
        )
    if not intact:
        raise ModelError(f"{path}: its content is not what was written: it was changed or damaged; {_AGAIN}")
    try:
        fitted = _restored(header, arrays)
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: is not a model that shunter wrote ({error}); {_AGAIN}") from None
    return _check_features(fitted, path)


def _restored(header: dict[str, Any], arrays: dict[str, Any]) -> Fitted | Forecaster:
    cls = KINDS[header["kind"]]
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if f"{field.name}.nodes" in arrays:
            values[field.name] = Trees(*(arrays[f"{field.name}.{part}"] for part in Trees.fields))
        elif field.name in arrays:
            values[field.name] = arrays[field.name]
        else:
            value = header[field.name]
            values[field.name] = tuple(value) if isinstance(value, list) else value
    made: Fitted | Forecaster = cls(**values)
    made.check()
    return made


def _check_features(fitted: Fitted | Forecaster, path: Path) -> Fitted | Forecaster:
    known: tuple[str, ...] = type(fitted).features  # the default
    if fitted.features != known:
        differ = sorted(set(fitted.features) ^ set(known)) or ["their order"]
        raise ModelError(
            f"{path}: was fitted to other features than this version of shunter has ({', '.join(differ[:5])}); {_AGAIN}"
        )
    return fitted


def _checksum(arrays: dict[str, Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(set(arrays) - {"checksum"}):
        digest.update(f"{name} {arrays[name].shape} {arrays[name].dtype}".encode() + arrays[name].tobytes())
    return digest.digest()


# ------------------------------------------------------------------------------------------- the cache


def cache_folder() -> Path:
    """Where fitted models are kept; the environment variable SHUNTER_MODELS names another place."""
    return caches.private(caches.user_folder("models", "SHUNTER_MODELS"))


@cache
def code_digest() -> str:
    """A hash of what fits models: other code may make another model of the same jobs."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def cached(parts: Sequence[object], make: Callable[[], T]) -> T:
    """What ``make`` fits, or what it fitted before from the same: history, model, settings, instant."""
    text = repr((code_digest(), *parts)).encode()
    try:
        path = cache_folder() / f"{hashlib.blake2b(text, digest_size=16).hexdigest()}.model"
    except caches.NotPrivateError:
        return make()
    try:
        found = load(path)
    except ModelError:
        made = make()
        _keep(made, path)
        return made
    return found  # type: ignore[return-value]  # its parts say what it is


def _keep(fitted: Fitted | Forecaster, path: Path) -> None:
    """Put a model into the cache, where one can write, and drop those of more than a month ago."""
    try:
        for old in path.parent.glob("*.model"):
            if time.time() - old.stat().st_mtime > MONTH_S:
                old.unlink(missing_ok=True)
        save(fitted, path)
    except (OSError, ModelError):
        return
