"""What can go wrong."""

from __future__ import annotations


class MeasuringError(Exception):
    """What is missing or wrong, and what to do about it."""


class HostError(Exception):
    """A process that runs loops died, hangs, or ran out of memory."""
