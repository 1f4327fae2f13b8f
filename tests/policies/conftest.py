"""Which of the many conformance tests are left to scripts/test-slow."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        is_slow = getattr(getattr(item, "cls", None), "is_slow", None)
        chosen = item.callspec.params if hasattr(item, "callspec") else {}
        if is_slow is not None and "case" in chosen and is_slow(item.originalname, chosen["policy"], chosen["case"]):
            item.add_marker(pytest.mark.slow)
