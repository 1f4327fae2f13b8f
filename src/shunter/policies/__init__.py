"""One file per policy, found by its name: no registration. ``Ordering`` is what most are made of, for others to use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.scheduling.queue.ordering import Ordering

__all__ = ["Ordering"]


def __getattr__(name: str) -> Any:
    """Import ``Ordering`` when it is first used: names are listed without NumPy."""
    if name != "Ordering":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from shunter.scheduling.queue.ordering import Ordering

    return Ordering
