"""Marks: what a job had before our first change and what it has from us, kept in the job itself.

A mark is a word in the job's AdminComment, which only administrators may write: no user can forge one.  The lever and
its mark are set by one request to slurmctld: a job never has one without the other, whatever is killed in between.
Slurm saves marks with the job, and a task that leaves its waiting array takes the array's marks with it.

    shunter:1f2e3d4c:nice=0>-300        journal 1f2e3d4c changed nice from 0 to -300

Marks are separated by commas, from each other and from what the site has written there, which stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from shunter.live.marks import Mark

SIZE = r"(?:job|node):gres[:/]gpu(?:[:/][\w.-]{1,64})?[:=]\d{1,6}"  # of all GPUs, or of those on its node
VALUES = {  # by lever: what a job can have had before, and what it can have from us
    "nice": (r"-?\d{1,10}", r"-?\d{1,10}"),
    "priority": (r"\d{1,10}:-?\d{1,10}", r"\d{1,10}"),
    "pin": (r"", r"[\w.+-]+"),
    "resize": (SIZE, SIZE),
    "shard": (r"gres[:/]shard[:=]\d{1,9}", r"gres[:/]shard[:=]\d{1,9}"),
}
LEVERS = "|".join(f"{lever}={before}>{value}" for lever, (before, value) in VALUES.items())
MARK = re.compile(rf"(?:(?<=,)|\A)shunter:([0-9a-f]{{8}}):({LEVERS})(?:,|\Z)", re.ASCII)


def text_of(mark: Mark) -> str:
    """The mark as it stands in the AdminComment."""
    return f"shunter:{mark.journal}:{mark.lever}={mark.before}>{mark.value.replace(',', '+')}"


def marks_in(comment: str) -> dict[str, Mark]:
    """The marks in an AdminComment by lever; a word that is not exactly a mark is the site's own text."""
    found: dict[str, Mark] = {}
    for match in MARK.finditer(comment):
        lever, _, change = match[2].partition("=")
        before, _, value = change.partition(">")
        found.setdefault(lever, Mark(match[1], lever, before, value.replace("+", ",")))
    return found


def unmarked(comment: str, levers: Collection[str] = tuple(VALUES)) -> str:
    """An AdminComment without the marks of these levers; the site's own text stays, byte for byte."""
    kept = MARK.sub(lambda match: "" if match[2].partition("=")[0] in levers else match[0], comment)
    return kept[:-1] if kept.endswith(",") and not comment.endswith(",") else kept


def marked(comment: str, mark: Mark) -> str:
    """An AdminComment with this mark, in place of one of the same lever."""
    text = text_of(mark)
    if not MARK.fullmatch(text):
        raise ValueError(f"'{text}' can't be read back as a mark")
    rest = unmarked(comment, (mark.lever,))
    return f"{rest},{text}" if rest else text
