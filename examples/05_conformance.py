"""Test a policy of your own with the suite that shunter ships: ``pytest 05_conformance.py``."""

from dataclasses import dataclass

import pytest

from shunter import Ordering, Policy
from shunter.testing.conformance import PolicyConformance
from shunter.world import F64, Job


@dataclass(frozen=True)
class WidestOfTheShort(Ordering):
    """Short jobs before long ones; among those of about the same length, the widest first."""

    uses_estimate = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """Smaller first."""
        return job.estimate // 600 - job.gpus / 1000


class TestWidestOfTheShort(PolicyConformance):
    """Some thirty tests come with it."""

    @pytest.fixture(params=["none", "easy", "conservative"])
    def policy(self, request: pytest.FixtureRequest) -> Policy:
        """The policy under test, in each of its modes."""
        return WidestOfTheShort(backfill=request.param)
