"""What a job waits for."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What has to happen before a job can start."""

    TURN = "it waits for its turn"
    BEGIN = "it waits for a time"
    DEPENDENCY = "it waits for another job"
    LIMIT = "a limit keeps it back until others of the same user, account or QOS have ended"
    CLUSTER = "something must come back or be changed by an administrator"
    HELD = "someone holds it"
    NEVER = "as it is, it will never start"


class Meaning(NamedTuple):
    """A reason in plain words, and what can be done."""

    kind: Kind
    words: str
    remedy: str = ""
    cause: str = ""  # "array": other tasks of its array, "licences", "maintenance"; "": another
