"""A what-if: a trace, a cluster and policies, run in this process; and the same as a command and as Python."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

from shunter import simulation
from shunter.clusters.stop_costs import USUAL
from shunter.comparison import Comparison, of_runs
from shunter.errors import RunError
from shunter.report.html.course import courses, distributions
from shunter.report.html.findings import label
from shunter.report.html.overview import overview
from shunter.run_folder import Run
from shunter.setup import Setup, set_up, trace_version
from shunter.simulation import Result, resolve
from shunter.under_way import RunPoint, SimulatedCourse
from shunter.web.choices import checked_policy, cluster_text, policy_text, trace_text
from shunter.web.folder import RunsFolder
from shunter.web.forms import Sent
from shunter.web.growing import GrowingRun
from shunter.web.tasks import BackgroundTask

MOST_POLICIES = 8
MOST_KEPT = 4  # answers that are shown side by side
MOST_JOBS = 1_000_000  # of a trace in the folder
LONGEST_TEXT = 200  # letters of a setting


@dataclass(frozen=True)
class WhatIf:
    """What is asked."""

    trace: str  # as the command line takes it
    cluster: str
    policies: tuple[str, ...]
    load: str = ""
    drop_unfit: bool = False
    seed: int = 0
    overhead: str = ""  # what a stop costs; "": as the command line has it
    checkpointable: str = ""  # which jobs can be stopped; "": as the trace says

    @property
    def _more(self) -> dict[str, Any]:
        """The other settings, by their names in Python; only those that are set."""
        named = ("load", "drop_unfit", "overhead", "checkpointable", "seed")
        return {name: value for name in named if (value := getattr(self, name))}

    @property
    def command(self) -> str:
        """The same on the command line."""
        single = len(self.policies) == 1
        words = ["shunter", "simulate" if single else "compare", self.trace, "--cluster", self.cluster]
        words += [word for policy in self.policies for word in ("--policy", policy)]
        for name, value in self._more.items():
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)

    @property
    def python(self) -> str:
        """The same in Python."""
        single = len(self.policies) == 1
        chosen: Any = self.policies[0] if single else list(self.policies)
        more = "".join(f", {name}={value!r}" for name, value in self._more.items())
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
    texts = {name: form.one(name).strip() for name in ("load", "overhead", "checkpointable")}
    return asked(folder, trace, cluster, policies, drop_unfit=bool(form.one("drop_unfit")), **texts)


def asked(
    folder: RunsFolder,
    trace: str,
    cluster: str,
    policies: Sequence[str],
    *,
    load: str = "",
    drop_unfit: bool = False,
    overhead: str = "",
    checkpointable: str = "",
) -> WhatIf:
    """A what-if of which every part was checked."""
    for name, text in (("load", load), ("overhead", overhead), ("checkpointable", checkpointable)):
        if len(text) > LONGEST_TEXT or not text.isprintable():
            raise RunError(f"{name} has up to {LONGEST_TEXT} letters that can be printed")
    if not policies:
        raise RunError("there is no policy; choose one")
    if len(policies) > MOST_POLICIES:
        raise RunError(f"up to {MOST_POLICIES} policies run at once here, got {len(policies)}")
    chosen = tuple(checked_policy(policy) for policy in policies)
    if len(set(chosen)) < len(chosen):
        raise RunError("a policy is chosen twice with the same parameters; change or remove one")
    found = trace_text(folder, trace), cluster_text(cluster), chosen, load, drop_unfit
    return WhatIf(*found, overhead=overhead, checkpointable=checkpointable)


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


def answered(wanted: WhatIf, task: BackgroundTask) -> WhatIfAnswer:
    """Run all policies one after the other; reasons for waiting are recorded."""
    begun = time.perf_counter()
    chosen = [resolve(policy) for policy in wanted.policies]
    setup = _set_up(wanted, trace_version(wanted.trace))
    jobs, results = len(setup.trace), []
    if jobs > MOST_JOBS:
        raise RunError(f"a trace has up to {MOST_JOBS:,} jobs here, this one {jobs:,}; use the command line")
    for number, policy in enumerate(chosen):
        reach = partial(_reached, task, (number * jobs, jobs * len(chosen)), policy.text, SimulatedCourse(), setup)
        results.append(simulation.run(setup, policy, wanted.seed, progress=reach, decisions=True))
        task.add(results[-1].kept)
    made = WhatIfAnswer(wanted, tuple(results), setup.redraws, time.perf_counter() - begun)
    made.runs  # noqa: B018 made here, while progress is shown
    return made


def _reached(
    task: BackgroundTask, steps: tuple[int, int], name: str, course: SimulatedCourse, setup: Setup, point: RunPoint
) -> None:
    """Take note of how far a policy is; ``steps``: those before it, and all."""
    course.add(point)
    task.grow(GrowingRun(name, course.points, len(setup.trace), setup.cluster.gpus))
    task.report(steps[0] + point.ended, steps[1])


def so_far(runs: Sequence[Run]) -> list[str]:
    """Charts of the policies that have ended, while others still run."""
    rows = [run.summary for run in runs]
    names = [label(row) for row in rows]
    return [*distributions(names, runs, rows), *courses(names, runs, rows)]


@lru_cache(maxsize=4)
def _prepared(setting: tuple[Any, ...], version: tuple[int, int]) -> Setup:
    """The trace and the cluster; the same again need not be read again, unless the file's ``version`` is another."""
    trace, cluster, must_fit, load, overhead, checkpointable = setting
    more = {"checkpointable": checkpointable} if checkpointable else {}
    return set_up(trace, cluster, must_fit, overhead=overhead or USUAL, load=load, **more)


def _set_up(wanted: WhatIf, version: tuple[int, int]) -> Setup:
    must_fit = wanted.policies if wanted.drop_unfit else ()
    setting = (wanted.trace, wanted.cluster, must_fit, wanted.load, wanted.overhead, wanted.checkpointable)
    return _prepared(setting, version)
