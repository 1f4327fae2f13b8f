"""A cluster in memory on which jobs wait."""

from __future__ import annotations

from shunter.testing.memory_manager import MemoryManager


def busy() -> MemoryManager:
    """All eight GPUs are in use; three jobs wait, the longest first."""
    manager = MemoryManager()
    for _ in range(2):
        manager.submit(4, 600)
    manager.schedule()
    for minutes in (60, 30, 10):
        manager.submit(4, minutes)
    return manager
