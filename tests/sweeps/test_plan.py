"""From a sweep file to its runs."""

from __future__ import annotations

import pytest

from shunter.errors import InputError, PolicyError, RunError
from shunter.sweeps import form as forms
from shunter.sweeps.places import checked, ground_of
from shunter.sweeps.plan import plan
from shunter.variants import with_grid

BASE = {"traces": ["synthetic:jobs=50,gpus=8"], "clusters": ["1x8"], "policies": ["fifo"]}


def planned(**axes):
    return plan(forms.of(**{**BASE, **axes}))


def test_the_product_of_all_axes():
    found = planned(
        traces=["synthetic:jobs=50", {"trace": "synthetic:jobs=60", "name": "sixty"}],
        clusters=["1x8", "2x8"],
        loads=[0.5, 1.0, 1.5],
        networks=["", "profiled"],
        overheads=["0", "60,120"],
        checkpointable=["none", "25%"],
        policies=["fifo", "las"],
        seeds=4,
    )
    assert len(found.runs) == 2 * 2 * 3 * 2 * 2 * 2 * 2 * 4 == len(set(found.runs))
    assert {run.seed for run in found.runs} == {0, 1, 2, 3}
    assert {place.jobs.name for place in found.places} == {"synthetic:jobs=50", "sixty"}


def test_an_axis_that_is_not_named_is_that_of_a_single_run():
    (run,) = planned().runs
    place = run.place
    assert (place.load, place.network, place.overhead, place.checkpointable, run.seed) == ("", "", "usual", "", 0)


@pytest.mark.parametrize(
    ("policy", "texts"),
    [
        ({"policy": "saf", "grid": {"backfill": ["none", "easy"]}}, ["saf", "saf:backfill=easy"]),
        (
            {"policy": "saf:backfill=easy", "grid": {"depth": [1, 100]}},
            ["saf:backfill=easy,depth=1", "saf:backfill=easy"],
        ),
        (
            {"policy": "dally", "range": {"lease": {"low": 600, "high": 2400, "steps": 3, "scale": "log"}}},
            ["dally:lease=600", "dally:lease=1200", "dally:lease=2400"],
        ),
        (
            {"policy": "dally", "range": {"lease": {"low": 600, "high": 2400, "steps": 3}}},
            ["dally:lease=600", "dally:lease=1500", "dally:lease=2400"],
        ),
    ],
)
def test_parameters_that_vary(policy, texts):
    assert planned(policies=[policy]).policies == texts


def test_a_sample_is_drawn_the_same_way_each_time():
    policy = {
        "policy": "dally",
        "sample": 7,
        "range": {"lease": {"low": 600, "high": 6000, "scale": "log"}},
        "grid": {"timers": ["manual", "auto"]},
    }
    first, again = (planned(policies=[policy]).policies for _ in range(2))
    assert first == again
    assert len(first) == 7
    leases = [
        float(part.removeprefix("lease="))
        for text in first
        for part in text.split(":")[1].split(",")
        if "lease" in part
    ]
    assert all(600 <= lease <= 6000 for lease in leases)


def test_a_window_without_jobs_is_refused_with_the_way_to_leave_it_out():
    window = {"first": 900, "days": 1.0, "count": 1}
    found = planned(traces=[{"trace": "synthetic:jobs=50", "name": "few", "equal_windows": window}])
    with pytest.raises(InputError, match=r"\[\[exclude\]\] with trace = 'few' and window = '\+900\.\.\+901'"):
        checked(found, ground_of(found))


def test_windows_of_equal_length():
    found = planned(traces=[{"trace": "synthetic:jobs=50", "equal_windows": {"first": 7, "days": 3.5, "count": 3}}])
    assert [place.jobs.window for place in found.places] == ["+7..+10.5", "+10.5..+14", "+14..+17.5"]


def test_an_include_adds_runs_and_inherits_the_other_axes():
    found = planned(seeds=2, loads=[0.9], include=[{"policies": ["las"], "loads": [1.1]}])
    assert {(run.policy, run.place.load) for run in found.runs} == {("fifo", "0.9"), ("las", "1.1")}
    assert len(found.runs) == 4


def test_an_exclude_leaves_out_what_agrees_with_every_field():
    axes = {"policies": ["fifo", "las", "saf"], "loads": [0.5, 1.0], "seeds": 3}
    found = planned(**axes, exclude=[{"policy": ["l*", "saf"], "load": 1.0}, {"seed": 2}])
    assert {(run.policy, run.place.load) for run in found.runs} == {
        ("fifo", "0.5"), ("fifo", "1"), ("las", "0.5"), ("saf", "0.5"),
    }  # fmt: skip
    assert {run.seed for run in found.runs} == {0, 1}


def test_equal_runs_are_one():
    assert len(planned(policies=["fifo", "fifo:backfill=none"]).runs) == 1


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"policies": []}, "there are no policies; add policies = ['fifo']"),
        ({"policies": ["fifi"]}, "did you mean 'fifo'"),
        (
            {"policies": [{"policy": "fifo", "grid": {"backfil": ["easy"]}}]},
            "no parameter 'backfil'; did you mean 'backfill'",
        ),
        ({"policies": [{"policy": "fifo", "grid": {"backfill": ["maybe"]}}]}, "must be none | easy | conservative"),
        (
            {"policies": [{"policy": "saf:backfill=easy", "grid": {"backfill": ["none"]}}]},
            "sets 'backfill', which also varies",
        ),
        (
            {"policies": [{"policy": "dally", "grid": {"lease": [60]}, "range": {"lease": {"low": 1, "high": 2}}}]},
            "'lease' has a grid and a range",
        ),
        ({"policies": [{"policy": "dally", "range": {"lease": {"low": 900, "high": 600}}}]}, "needs low < high"),
        ({"policies": [{"policy": "saf", "range": {"backfill": {}}}]}, "a parameter that is a number"),
        ({"policies": [{"policy": "fifo", "sample": 3}]}, "a sample and nothing that varies"),
        ({"exclude": [{"policy": "las"}]}, "[[exclude]] 1: no run agrees with it"),
        ({"exclude": [{"policy": "*"}]}, "every run is left out"),
        ({"exclude": [{}]}, "leaves out every run"),
        ({"loads": [-1.0]}, "loads"),
        ({"networks": ["fast"]}, "networks"),
        ({"seeds": 0}, "seeds"),
        ({"seedz": 3}, "seedz is not known; did you mean 'seeds'"),
        ({"seeds": 10_000, "loads": [0.01 * n for n in range(1, 200)]}, "more than 1,000,000"),
        (
            {"traces": [{"trace": "synthetic:jobs=5", "name": "a"}, {"trace": "synthetic:jobs=6", "name": "a"}]},
            "two traces are called 'a'",
        ),
        (
            {"traces": [{"trace": "x.csv", "windows": [{"since": "+1"}], "equal_windows": {"days": 1.0, "count": 2}}]},
            "exclude each other",
        ),
    ],
)
def test_contradictions_are_refused_with_a_remedy(axes, message):
    with pytest.raises(InputError) as caught:
        planned(**axes)
    assert message in str(caught.value)


def test_a_file_names_its_mistakes_by_table_and_field(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text('traces = ["synthetic"]\nclusters = ["1x8"]\n[[policies]]\npolicy = "fifo"\ngird = 3\n')
    with pytest.raises(RunError, match=r"sweep.toml: \[\[policies\]\] 1: gird is not known; did you mean 'grid'"):
        forms.read(file)
    file.write_text("traces = [")
    with pytest.raises(RunError, match=r"sweep.toml line 1: not valid TOML"):
        forms.read(file)


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\na,0,10,1\n")
    file = tmp_path / "sweep.toml"
    file.write_text('traces = ["jobs.csv", "synthetic:jobs=5"]\nclusters = ["1x8"]\npolicies = ["fifo"]\n')
    found = [place.jobs for place in plan(forms.read(file)).places]
    assert [(each.trace, each.name) for each in found] == [
        (str(tmp_path / "jobs.csv"), "jobs.csv"),
        ("synthetic:jobs=5", "synthetic:jobs=5"),
    ]


def test_a_grid_for_several_policies():
    assert with_grid(["fifo", "tiresias"], {"blocking": ["strict", "skip"], "depth": ["5"]}) == [
        "fifo:depth=5", "fifo:blocking=skip,depth=5", "tiresias",
    ]  # fmt: skip
    with pytest.raises(RunError, match="no policy has the parameter 'nothing'"):
        with_grid(["fifo"], {"nothing": ["1"]})
    with pytest.raises(PolicyError, match="must be"):
        with_grid(["fifo"], {"backfill": ["none", "maybe"]})
