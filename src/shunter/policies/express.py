"""Our best: Gittins' index for jobs that may be stopped, and the smallest area first for the others."""

from __future__ import annotations

from dataclasses import dataclass, fields

from shunter.policies.gittins import Gittins
from shunter.policies.saf import Saf


@dataclass(frozen=True)
class Express(Gittins):
    """Our best: the least expected GPU time first, with backfilling; stops only jobs that may be stopped.

    It is ``gittins`` with its defaults.  Where no job may be stopped it is ``saf:backfill=easy,placement=tight``.
    """

    @property
    def without_stops(self) -> Saf:
        """The policy that this one is where no job may be stopped, to the digest (but for ``estimate=oracle``)."""
        return Saf(**{field.name: getattr(self, field.name) for field in fields(Saf)})
