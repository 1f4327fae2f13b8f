"""A what-if: a trace, a cluster and policies, run in this process; and the same as a command and as Python."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from shunter import simulation
from shunter.clusters.stop_costs import USUAL
from shunter.comparison import Comparison, of_runs
from shunter.errors import RunError
from shunter.processes import Progress
from shunter.report.html.course import courses, distributions
from shunter.report.html.findings import label
from shunter.report.html.overview import overview
from shunter.run_folder import Run
from shunter.setup import Setup, set_up
from shunter.simulation import Result, resolve
from shunter.web.choices import checked_policy, cluster_text, policy_text, trace_text
from shunter.web.folder import RunsFolder
from shunter.web.forms import Sent

MOST_POLICIES = 8
MOST_KEPT = 4  # answers that are shown side by side


@dataclass(frozen=True)
class WhatIf:
    """What is asked."""

    trace: str  # as the command line takes it
    cluster: str
    policies: tuple[str, ...]
    load: str = ""
    drop_unfit: bool = False
    seed: int = 0

    @property
    def command(self) -> str:
        """The same on the command line."""
        single = len(self.policies) == 1
        words = ["shunter", "simulate" if single else "compare", self.trace, "--cluster", self.cluster]
        words += [word for policy in self.policies for word in ("--policy", policy)]
        words += ["--load", self.load] if self.load else []
        words += ["--drop-unfit"] if self.drop_unfit else []
        words += ["--seed", str(self.seed)] if self.seed else []
        return shlex.join(words)

    @property
    def python(self) -> str:
        """The same in Python."""
        single = len(self.policies) == 1
        chosen: Any = self.policies[0] if single else list(self.policies)
        more = "".join(
            f", {name}={value!r}"
            for name, value in (("load", self.load), ("drop_unfit", self.drop_unfit), ("seed", self.seed))
            if value
        )
        call = f"shunter.{'simulate' if single else 'compare'}({self.trace!r}, {self.cluster!r}, {chosen!r}{more})"
        shown = "print(result.summary)" if single else "print(result.verdict)"
        lines = ["import shunter", "", 'if __name__ == "__main__":', f"    result = {call}", f"    {shown}"]
        return "\n".join(lines) + "\n"


def of_form(folder: RunsFolder, form: Sent) -> WhatIf:
    """What a form asks; slots of policies are numbered, and their parameters have the slot's name before theirs."""
    slots = [slot for slot in dict.fromkeys(form.all("slot")) if form.one(f"{slot}.policy")]
    policies = [policy_text(form.one(f"{slot}.policy"), form.under(f"{slot}.set.")) for slot in slots]
    trace = form.one("trace")
    if trace == "synthetic":
        trace = f"synthetic:jobs={_whole(form.one('jobs', '5000'), 'jobs')}"
        trace += f",gpus={_whole(form.one('gpus_of_trace', '128'), 'GPUs')},load={_number(form.one('trace_load', '1'))}"
        trace += f",seed={_whole(form.one('trace_seed', '0'), 'seed')}"
    cluster = form.one("cluster") or f"{form.one('nodes')}x{form.one('gpus')}"
    return asked(folder, trace, cluster, policies, form.one("load").strip(), bool(form.one("drop_unfit")))


def asked(
    folder: RunsFolder, trace: str, cluster: str, policies: Sequence[str], load: str = "", drop_unfit: bool = False
) -> WhatIf:
    """A what-if of which every part was checked."""
    if not policies:
        raise RunError("there is no policy; choose one")
    if len(policies) > MOST_POLICIES:
        raise RunError(f"up to {MOST_POLICIES} policies run at once here, got {len(policies)}")
    chosen = tuple(checked_policy(policy) for policy in policies)
    if len(set(chosen)) < len(chosen):
        raise RunError("a policy is chosen twice with the same parameters; change or remove one")
    return WhatIf(trace_text(folder, trace), cluster_text(cluster), chosen, load, drop_unfit)


def _whole(text: str, what: str) -> int:
    if not text.strip().isdecimal() or len(text) > 9:
        raise RunError(f"{what} must be a whole number, got '{text[:40]}'")
    return int(text)


def _number(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        raise RunError(f"load must be a number, got '{text[:40]}'") from None


@dataclass(frozen=True, eq=False)
class WhatIfAnswer:
    """What came out."""

    asked: WhatIf
    results: tuple[Result, ...]
    redrawn: bool  # repeats would have jobs of their own
    seconds: float
    saved: dict[str, str] = field(default_factory=dict)  # policy -> name of its run in the folder

    @cached_property
    def runs(self) -> list[Run]:
        """The runs as folders keep them."""
        return [result.kept for result in self.results]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The summaries, without intervals: these take longer than the runs."""
        return [run.summary for run in self.runs]

    @cached_property
    def comparison(self) -> Comparison:
        """The same with intervals."""
        return of_runs(self.runs, self.redrawn)

    def glance(self) -> list[str]:
        """Numbers side by side and charts; the verdict about several policies needs intervals and comes later."""
        names, several = [label(row) for row in self.rows], len(self.runs) > 1
        charts = [*distributions(names, self.runs, self.rows), *courses(names, self.runs, self.rows)]
        return [*overview(self.runs, self.rows)[several:], *charts]


def answered(wanted: WhatIf, progress: Progress) -> WhatIfAnswer:
    """Run all policies one after the other; reasons for waiting are recorded."""
    begun = time.perf_counter()
    chosen = [resolve(policy) for policy in wanted.policies]
    must_fit = wanted.policies if wanted.drop_unfit else ()
    setup = _set_up(wanted.trace, wanted.cluster, must_fit, wanted.load, _version(wanted.trace))
    jobs, results = len(setup.trace), []
    for number, policy in enumerate(chosen):
        done = lambda ended, number=number: progress(number * jobs + ended, jobs * len(chosen))  # noqa: E731
        results.append(simulation.run(setup, policy, wanted.seed, progress=done, decisions=True))
    made = WhatIfAnswer(wanted, tuple(results), setup.redraws, time.perf_counter() - begun)
    made.runs  # noqa: B018 made here, while progress is shown
    return made


def _version(trace: str) -> tuple[int, int]:
    """What changes with a file's content."""
    if trace.startswith("synthetic"):
        return 0, 0
    found = Path(trace).stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _set_up(trace: str, cluster: str, must_fit: tuple[str, ...], load: str, version: tuple[int, int]) -> Setup:
    """The trace and the cluster; the same again need not be read again, unless the file's ``version`` is another."""
    return set_up(trace, cluster, must_fit, overhead=USUAL, load=load)
