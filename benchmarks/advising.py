"""How near advice's replay comes to recorded waits, month by month: ``python -m benchmarks.advising``.

Every history with recorded waits is replayed twice: on the cluster of its file, and on the site as its own record shows
it, which is what ``shunter advise`` does.  ``--settings`` tries other settings of the inference on AAIC.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter.advice import advising, capacity, present
from shunter.advice.candidates import site_of
from shunter.advice.recorded_waits import DAY_MS
from shunter.advice.validity import agreement, months
from shunter.advice.verdict import Verdict
from shunter.model import Trace
from shunter.report.terminal.tables import duration
from shunter.safe_files import data_folder
from shunter.setup import read_trace
from shunter.simulation import resolve
from shunter.world import I64

BASE = "fifo:backfill=easy"
AAIC = "aaic/aaicwl-201807-201812.csv.gz"
CHOSEN_BEFORE = np.datetime64("2018-10", "M")  # settings are those that the months before would choose


@dataclass(frozen=True)
class History:
    """A history and the cluster that its file would be."""

    name: str
    path: str
    cluster: str
    months: str = ""  # from the first to the last; "": all

    def read(self) -> Trace:
        """Its jobs."""
        folder = data_folder()
        assert folder is not None, "the data folder is missing; set SHUNTER_DATA"
        trace = read_trace(folder / self.path)
        if not self.months:
            return trace
        month = trace.submit.astype("datetime64[ms]").astype("datetime64[M]").astype(str)
        first, last = self.months.split("..")
        return trace.select((month >= first) & (month <= last))


HISTORIES = (
    History("AAIC", AAIC, "40x8"),
    History("AAIC, a file with half of the nodes", AAIC, "20x8"),
    History("AAIC, a file with far more nodes", AAIC, "64x8"),
    History("AAIC, third quarter alone", AAIC, "40x8", "2018-07..2018-09"),
    History("AAIC, fourth quarter alone", AAIC, "40x8", "2018-10..2018-12"),
    History("MIT Supercloud, a sample of its jobs", "supercloud/slurm_log_sample.csv.gz", "224x2"),
    History("Alibaba 2023, pods with GPUs", "openb/openb_pod_list_default.csv.gz", "1213x5"),
    History("RLTune's synthetic trace", "rltune/synthetic_trace.csv", "8x8"),
    History("RLTune's testbed, 96 jobs", "rltune/jobcomp.log", "2x8"),
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Two replays of a history."""

    site: present.Present
    before: I64  # waits (ms) on the cluster of the file, -1: none, in the order of the site's trace
    after: I64  # and on the site as the record shows it
    verdict: Verdict


def outcome(history: History) -> Outcome:
    """Replay a history."""
    base = resolve(BASE)
    setup, stated = present.read(history.read(), history.cluster, [base.policy])
    plain = present.replay(dataclasses.replace(setup, user_cap=0), base)
    site = present.present(setup, stated, plain if not setup.user_cap else present.replay(setup, base))
    days = min(30.0, (setup.trace.submit[-1] - setup.trace.submit[0]) / DAY_MS / 3)
    question = advising.Question(base, site_of(base.policy), days=days)
    window = advising.window(site.setup, question)
    assert window is not None
    found, after = advising.replayed(site, question, window.begin)
    verdict = advising.judged(site, found, advising.window(site.setup, question, window.begin))
    place = {job: at for at, job in enumerate(setup.trace.job_id)}
    return Outcome(site, plain[[place[job] for job in site.trace.job_id]], after, verdict)


def by_month(found: Outcome) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Each month, whether it is judged, and how near both replays are."""
    trace = found.site.trace
    known = (trace.recorded_wait >= 0) & (found.before >= 0) & (found.after >= 0)
    for name, rows in months(trace):
        mine = rows & known
        if mine.sum() >= 100:
            part = np.median(trace.submit[mine]) >= found.site.judged_from
            before, after = (agreement(trace, waits, mine, name) for waits in (found.before, found.after))
            yield name, "judged" if part else "learned from", before, after


def month_rows(found: Outcome) -> list[str]:
    """The rows of the table of months."""
    rows = []
    for name, role, before, after in by_month(found):
        cells = [name, role, f"{before['jobs']:,}", duration(before["recorded_wait_s"]["mean"])]
        for about in (before, after):
            ranks = (about["rank_correlation"], about["rank_of_waits"])
            cells += [duration(about["simulated_wait_s"]["mean"]), *("–" if r is None else f"{r:.2f}" for r in ranks)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


HEAD = (
    "| month | | jobs | recorded | by the file: simulated | all waits | over a minute | by the record: simulated |"
    " all waits | over a minute |\n|---|---|---|---|---|---|---|---|---|---|"
)


def verdict_row(history: History, found: Outcome) -> str:
    """The row of the table of verdicts."""
    return f"| {history.name} | `{history.cluster}` | {found.verdict.use} | {'; '.join(found.verdict.why[:2])} |"


def settings() -> Iterator[str]:
    """AAIC's mean rank correlation over a minute with other settings, before and after the months chosen on."""
    history = HISTORIES[0]
    for memory in (1, 2, 3, 5, 7):
        for flat in (0.03, 0.05, 0.1):
            capacity.MEMORY, capacity.FLAT = memory, flat
            ranks: dict[bool, list[float]] = {True: [], False: []}
            for name, role, _, after in by_month(outcome(history)):
                if role == "judged":
                    ranks[bool(np.datetime64(name, "M") < CHOSEN_BEFORE)].append(after["rank_of_waits"])
            means = (f"{np.mean(values):.3f} (least {min(values):.2f})" for values in (ranks[True], ranks[False]))
            yield f"| {memory} | {flat:g} | {' | '.join(means)} |"


def main() -> None:
    """Print the tables."""
    if "--settings" in sys.argv:
        sys.stdout.write("| days that count | flat | August and September | October to December |\n|---|---|---|---|\n")
        for row in settings():
            sys.stdout.write(row + "\n")
            sys.stdout.flush()
        return
    verdicts = []
    for history in HISTORIES:
        found = outcome(history)
        sys.stdout.write("\n".join((f"\n{history.name}, `{history.cluster}`\n", HEAD, *month_rows(found), "")))
        verdicts.append(verdict_row(history, found))
    sys.stdout.write("\n".join(("\n| history | cluster file | verdict | why |\n|---|---|---|---|", *verdicts, "")))


if __name__ == "__main__":
    main()
