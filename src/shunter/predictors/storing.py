"""Fitted models as files, and a cache of them.

A file is a zip of arrays, one of them a JSON text with all the rest, and a checksum of everything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from shunter import caches
from shunter.arrays import DTYPES
from shunter.errors import ModelError
from shunter.predictors.fitted import Fitted
from shunter.predictors.throughput import ThroughputForecaster
from shunter.predictors.trees import Trees
from shunter.safe_files import check_size, most_parsed, opened, whole
from shunter.world import F64, I64

FORMAT = 2
KINDS: dict[str, type[Any]] = {"duration": Fitted, "throughput": ThroughputForecaster}
MONTH_S = 30 * 86_400
_AGAIN = "make it again with 'shunter predict fit'"
# what reading a zip of arrays, or the JSON in it, raises where it is none
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    tokenize.TokenError,  # NumPy parses the header of an array as Python
)  # fmt: skip

T = TypeVar("T", Fitted, ThroughputForecaster)


def save(fitted: Fitted | ThroughputForecaster, path: Path) -> None:
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


def load(path: Path) -> Fitted | ThroughputForecaster:
    """Read a model; what can't be used is refused with what to do about it."""
    try:
        arrays = _arrays(path)
        header = json.loads(arrays["header"].tobytes())
        intact = arrays["checksum"].tobytes() == _checksum(arrays)
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file; {_AGAIN}") from None
    except (*_UNREADABLE, struct.error) as error:
        raise ModelError(f"{path}: is not a model, or only a part of one ({error}); {_AGAIN}") from None
    kind, version = (header.get(key) if isinstance(header, dict) else None for key in ("kind", "format"))
    if version != FORMAT or str(kind) not in KINDS:
        raise ModelError(
            f"{path}: must be a model of format {FORMAT}, got {kind} of format {version}, "
            f"which another version of shunter wrote; {_AGAIN}"
        )
    if not intact:
        raise ModelError(f"{path}: its content is not what was written: it was changed or damaged; {_AGAIN}")
    try:
        fitted = _restored(header, arrays)
        _check_features(fitted)
        fitted.check()
    except ValueError as error:
        raise ModelError(f"{path}: is not a model that shunter wrote: {error}; {_AGAIN}") from None
    return fitted


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays in a file, if they are not too large."""
    with opened(path) as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("it is no zip")
        with zipfile.ZipFile(file) as parts:
            check_size(sum(part.file_size for part in parts.infolist()), most_parsed())
        file.seek(0)
        with np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    odd = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
    if odd is not None:
        raise ValueError(f"{odd} is no array")
    return arrays


def _restored(header: dict[str, Any], arrays: dict[str, Any]) -> Fitted | ThroughputForecaster:
    """The model with every field of its declared type; else ``ValueError`` with the field's name."""
    cls = KINDS[header["kind"]]
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(cls)):
        if hints[name] is Trees:
            parts = {part: _array(f"{name}.{part}", kind, arrays) for part, kind in Trees.fields.items()}
            values[name] = Trees(**parts)
        elif hints[name] in (F64, I64):
            values[name] = _array(name, "F" if hints[name] == F64 else "I", arrays)
        else:
            values[name] = _value(name, hints[name], header)
    made: Fitted | ThroughputForecaster = cls(**values)
    return made


def _array(name: str, kind: str, arrays: dict[str, Any]) -> Any:
    """An array of numbers: its kind is that of a field of ``Arrays``, such as I2, or the type alone."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    found, dtype = arrays[name], np.dtype(DTYPES[kind[0]])
    if found.dtype != dtype or (kind[1:] and found.ndim != int(kind[1:])):
        wanted = f" with {kind[1:]} dimensions" if kind[1:] else ""
        raise ValueError(f"{name} must hold {dtype} numbers{wanted}, got {found.dtype} with {found.ndim} dimensions")
    return found


def _value(name: str, hint: Any, header: dict[str, Any]) -> Any:
    from pydantic import TypeAdapter, ValidationError  # slow to import

    if name not in header:
        raise ValueError(f"{name} is missing")
    try:
        return TypeAdapter(hint, config={"allow_inf_nan": False}).validate_json(json.dumps(header[name]), strict=True)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join([name, *(str(part) for part in first["loc"])])
        raise ValueError(f"{place}: {first['msg'].replace('Input should be', 'must be')}") from None


def _check_features(fitted: Fitted | ThroughputForecaster) -> None:
    known: tuple[str, ...] = type(fitted).features  # the default
    if fitted.features != known:
        differ = sorted(set(fitted.features) ^ set(known)) or ["their order"]
        raise ValueError(f"it was fitted to other features than this version of shunter has ({', '.join(differ[:5])})")


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


def _keep(fitted: Fitted | ThroughputForecaster, path: Path) -> None:
    """Put a model into the cache, where one can write, and drop those of more than a month ago."""
    try:
        for old in path.parent.glob("*.model"):
            if time.time() - old.stat().st_mtime > MONTH_S:
                old.unlink(missing_ok=True)
        save(fitted, path)
    except (OSError, ModelError):
        return
