"""Pytest, which the conformance suites need and shunter does not."""

from __future__ import annotations

from shunter.errors import InputError

try:
    import pytest as pytest  # noqa: PLC0414 for others
except ModuleNotFoundError:
    raise InputError(
        "the conformance suites need pytest; install it with: pip install pytest, and run: python -m pytest FILE"
    ) from None
