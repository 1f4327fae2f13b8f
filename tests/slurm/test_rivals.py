"""Two controllers with two journals on one real Slurm, and jobs whose journal is lost: the marks on them decide."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from acting import acting, fill, nices, shunter, untouched

from shunter.live.daemons import wait
from shunter.live.journal import DONE, Journal
from shunter.live.journal_copy import copy_of
from shunter.live.rivals import Rivals
from shunter.slurm.client import Client, declined
from shunter.slurm.lab import Lab
from shunter.slurm.marks import marks_in
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.slurm


@pytest.fixture
def queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Jobs wait in an order that shortest-first turns round, and longest-first does not."""
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    fill(lab, 9, 8, 7, 6, 5)
    return lab


def journals(lab: Lab) -> set[str]:
    """Whose marks waiting jobs have."""
    jobs = Watcher(Client(lab.conf)).snapshot().jobs
    return {mark.journal for job in jobs if job.state == "PENDING" for mark in marks_in(job.annotation).values()}


def made(*paths: Path) -> list[str]:
    """New journals; their ids."""
    found = []
    for path in paths:
        with closing(Journal(path)) as book:
            found.append(book.id)
    return found


def test_the_second_controller_changes_nothing(queue: Lab, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / "j.db", tmp_path / "second" / "j.db"
    one, _ = made(first, second)
    with acting(queue, first) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 180)
        with acting(queue, second, "ljf:estimate=limit") as other:
            assert wait(lambda: len(other.outcomes) >= 3, 180)
            assert f"another controller (journal {one}) has changed " in other.outcomes[0].paused
            assert "release --from-marks" in other.outcomes[0].paused
        assert not other.problems
        assert not controller.outcomes[-1].paused
    assert journals(queue) == {one}
    with closing(Journal(second)) as book:
        assert not book.acts()
    with acting(queue, second, "ljf:estimate=limit") as other:
        assert wait(lambda: len(other.outcomes) >= 2, 180)
        assert shunter("release", "--journal", first, "--from-marks").exit_code == 0  # the first is gone for good
        other.wait_rounds()
        assert shunter("resume", "--journal", second).exit_code == 0
        other.wait_rounds()
        assert not other.outcomes[-1].paused
        assert not any(outcome.respected for outcome in other.outcomes)  # nobody but controllers has changed anything


def test_of_two_that_begin_at_once_one_is_left(queue: Lab, tmp_path: Path) -> None:
    paths = [tmp_path / name / "j.db" for name in "ab"]
    low = min(made(*paths))
    with ExitStack() as stack:
        both = [
            stack.enter_context(acting(queue, path, name))
            for path, name in zip(paths, ("sjf:estimate=limit", "ljf:estimate=limit"), strict=True)
        ]
        for each in both:
            assert wait(lambda each=each: len(each.outcomes) >= 2, 180)
        for each in both:
            each.wait_rounds(4)
        assert len([each for each in both if not each.outcomes[-1].paused]) == 1
        assert len(journals(queue)) <= 1
    assert low


def test_the_lower_id_waits_and_the_other_gives_way() -> None:
    assert Rivals({"b": ["1"]}, ours=True).yields("c")
    assert not Rivals({"b": ["1"]}, ours=True).yields("a")
    assert Rivals({"b": ["1"]}, ours=False).yields("a")
    assert not Rivals({}, ours=True).yields("a")


def test_both_have_changed_jobs_and_the_lower_id_goes_on(queue: Lab, tmp_path: Path) -> None:
    """As after a start at the same moment: each has marks before it sees those of the other."""
    paths = sorted((tmp_path / name / "j.db" for name in "ab"), key=made)
    (low,), (high,) = (made(path) for path in paths)
    jobs = [int(job.id) for job in Watcher(Client(queue.conf)).snapshot().jobs if job.state == "PENDING"]
    for number, name in ((jobs[0], low), (jobs[1], high)):
        queue.run("scontrol", "update", f"jobid={number}", "nice=7", f"admincomment=shunter:{name}:nice=0>7")
    with acting(queue, paths[1]) as other, acting(queue, paths[0]) as controller:
        assert wait(lambda: len(other.outcomes) >= 3 and len(controller.outcomes) >= 3, 180)
        assert wait(lambda: journals(queue) == {low}, 180)
        assert wait(lambda: bool(other.outcomes[-1].paused), 180)
        assert wait(lambda: not controller.outcomes[-1].paused, 180)


# ------------------------------------------------------------------------------------------- without a journal


class Operator(Client):
    """One that may change the jobs of others and not mark them: Slurm lets only administrators do that."""

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        if any(each.startswith("admincomment=") for each in arguments):
            raise declined("Access/permission denied")
        return super().run(program, *arguments, **more)


def changed(queue: Lab, journal: Path, kind: type[Client] = Client) -> None:
    with acting(queue, journal, kind=kind) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 180)
    assert not untouched(queue)


def damaged(journal: Path) -> None:
    journal.write_bytes(os.urandom(9000))


def emptied(journal: Path) -> None:
    os.truncate(journal, 0)


def removed(journal: Path) -> None:
    journal.unlink()


def replaced(journal: Path) -> None:
    journal.unlink()
    Journal(journal).close()


@pytest.mark.parametrize(
    ("act", "kind"),
    [(damaged, Client), (emptied, Client), (removed, Client), (damaged, Operator), (replaced, Operator)],
)
def test_jobs_are_given_back_without_their_journal(queue: Lab, tmp_path: Path, act, kind: type[Client]) -> None:
    """By their marks; by the journal's copy, where the account may not write marks."""
    journal = tmp_path / "j.db"
    changed(queue, journal, kind)
    if kind is Client:
        copy_of(journal).unlink()
    before = nices(queue), journals(queue)
    assert bool(before[1]) == (kind is Client)
    act(journal)
    if act is not removed:
        with acting(queue, journal, "ljf:estimate=limit", kind=kind) as controller:
            assert wait(lambda: controller.ended is not None or len(controller.outcomes) >= 2, 180)
        assert "release --from-marks" in (str(controller.ended or "") or controller.outcomes[0].paused)
        assert (nices(queue), journals(queue)) == before  # nothing is changed before the jobs are given back
    result = shunter("release", "--journal", journal)
    assert result.exit_code == (1 if act in (emptied, replaced) else 2), result.output
    assert "--from-marks" in result.stderr
    assert (nices(queue), journals(queue)) == before
    result = shunter("release", "--journal", journal, "--from-marks", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["undone"] >= 2
    assert untouched(queue)
    assert not journals(queue)
    journal.unlink(missing_ok=True)
    changed(queue, journal, kind)  # a new one can begin


def test_a_value_that_an_administrator_has_set_since_stays(queue: Lab, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    changed(queue, journal)
    with closing(Journal(journal)) as book:
        moved = [act.order.handle for act in book.acts(DONE)]
    queue.run("scontrol", "update", f"jobid={moved[0]}", "nice=123")
    journal.unlink()
    assert shunter("release", "--journal", journal, "--from-marks").exit_code == 0
    assert queue.job(int(moved[0]))["Nice"] == "123"
    assert not journals(queue)
