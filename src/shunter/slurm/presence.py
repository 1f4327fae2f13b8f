"""The sign of a controller that acts: a reservation without nodes, named after its journal.

Marks show a controller only while a job waits that it has changed, and some accounts may not write any. A reservation
without nodes takes nothing from any job. Only operators can make one, every account sees it, Slurm saves it, and it
ends by itself when it is not renewed: after a kill no later than ``LASTS_MIN`` minutes.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from shunter.errors import LiveError
from shunter.live.journal import Journal
from shunter.live.manager import DeclinedError
from shunter.slurm.client import Client, user_name
from shunter.slurm.scontrol_output import records, time_ms
from shunter.slurm.surroundings import is_sign

DUPLICATE = re.compile("duplicate", re.IGNORECASE)
LASTS_MIN = 10  # or four intervals, if these are longer
NO_SIGN = "no reservation shows that this controller acts: others notice it by its marks on waiting jobs alone, if any"
LISTED = ("scontrol", "--all", "-o", "show", "reservations")


class Sign(NamedTuple):
    """A controller that acts: the first one stays, of two in the same second the one with the lower id."""

    since: int  # ms since 1970
    journal: str
    until: int


@dataclass
class SlurmPresence:
    """Shows that this controller acts, and sees others that do."""

    client: Client
    book: Journal
    interval_s: float = 60.0
    shown: bool = False
    _renewed: float = float("-inf")
    _forbidden: bool = False
    _alone: bool = False  # it was first once: a sign of the same second that shows up after that is a later one

    def rival(self) -> str:
        """Why this controller gives way; "": it need not. Others can see it before it looks.

        Raises ``LiveError`` if Slurm does not answer: then it is unknown.
        """
        self._show()
        signs = signs_in(self.client.run(*LISTED))
        own = next((sign for sign in signs if sign.journal == self.book.id), Sign(2**63, self.book.id, 0))
        first = min(signs, default=own)
        if first >= own or (self._alone and first.since == own.since):
            self._alone = True
            return ""
        return (
            f"another controller (journal {first.journal}) acts on this cluster: see reservation"
            f" shunter_{first.journal}. One cluster has one controller: end one of the two. The reservation of one that"
            f" was killed ends by itself within {self._minutes} minutes; then 'shunter slurm resume'"
        )

    @property
    def _minutes(self) -> int:
        return max(LASTS_MIN, round(4 * self.interval_s / 60))

    def _show(self) -> None:
        """Make the reservation, or let it last; an account that is no operator may not, and some releases can't."""
        if self._forbidden or time.monotonic() < self._renewed + 15 * self._minutes:  # a quarter of its time
            return
        name = f"reservationname=shunter_{self.book.id}"
        try:
            self.client.run("scontrol", "update", name, f"endtime=now+{self._minutes}minutes")
        except DeclinedError:
            lasts = ("starttime=now", f"duration={self._minutes}", f"users={user_name()}")
            try:
                self.client.run("scontrol", "create", "reservation", name, *lasts, "watts=1", "flags=any_nodes")
            except DeclinedError as error:
                if DUPLICATE.search(str(error)):
                    return  # it is there, and `update` failed for a moment: the next round tries again
                self._forbidden = True
                self.book.note("presence", f"{NO_SIGN}: {error}")
                return
        self.shown, self._renewed = True, time.monotonic()

    def remove(self) -> None:
        """Take it away: this controller no longer acts."""
        if self.shown:
            with suppress(LiveError):  # it ends by itself
                self.client.run("scontrol", "delete", f"reservationname=shunter_{self.book.id}")
            self.shown, self._renewed, self._alone = False, float("-inf"), False


def signs_in(text: str) -> list[Sign]:
    """The signs among what ``scontrol -o show reservations`` printed."""
    found = [_sign(each) for each in records(text, "ReservationName")]
    return [sign for sign in found if sign is not None]


def _sign(record: dict[str, str]) -> Sign | None:
    since, until = (time_ms(record.get(key, "Unknown")) for key in ("StartTime", "EndTime"))
    if not is_sign(record) or since < 0:
        return None
    return Sign(since, record["ReservationName"].removeprefix("shunter_"), until)
