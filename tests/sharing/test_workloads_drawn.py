"""Which workload a job is: by its model, by its user and name, by chance; never by its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import FAR_BELOW_QUADRATIC, growth
from shunter.cluster import SHARING
from shunter.model import Trace
from shunter.sharing.profiles import measured
from shunter.sharing.workload_assignment import workload_names, workloads, workloads_of

NAMES = ("ppo-b256", "resnet-cifar-b128-amp", "resnet-imagenet-b64", "bert-b32-amp", "gpt-b8")


def trace(jobs):
    """Jobs as (id, user, name, model, GPUs)."""
    ids, *codes, gpus = zip(*jobs, strict=True)
    columns = {}
    for column, values in zip(("user", "job_name", "model"), codes, strict=True):
        names = tuple(dict.fromkeys(value for value in values if value))
        columns[column] = np.array([names.index(value) if value else -1 for value in values])
        columns[column + "s"] = names
    n = len(jobs)
    times = {"submit": np.arange(n) * 1000, "duration": np.full(n, 1000), "gpus": np.array(gpus) * 1000}
    return Trace.of("made", list(ids), **times, **columns)


NAME = st.sampled_from(["", "a", "b", "c"])
JOBS = st.lists(
    st.tuples(NAME, NAME, st.sampled_from(["", "resnet50", "BERT-large", "vgg"]), st.sampled_from([1, 2, 8])),
    min_size=1,
    max_size=12,
)


@given(JOBS, st.randoms(use_true_random=False), st.integers(0, 99))
def test_the_order_of_the_trace_changes_nothing(jobs, random, seed):
    jobs = [(f"j{i}", *job) for i, job in enumerate(jobs)]
    drawn = dict(zip((job[0] for job in jobs), workloads(trace(jobs), NAMES, seed), strict=True))
    mixed = random.sample(jobs, len(jobs))[: max(1, len(jobs) - 2)]
    assert [drawn[job[0]] for job in mixed] == workloads(trace(mixed), NAMES, seed).tolist()
    for one in jobs:
        for two in jobs:
            if one[1:] == two[1:] and (one[1] or one[2]):
                assert drawn[one[0]] == drawn[two[0]]  # a recurring job is alike


@pytest.mark.parametrize(
    ("model", "may_be"),
    [
        ("resnet-cifar-b128-amp", {1}),
        ("ResNet_Cifar_b128_amp", {1}),
        ("resnet50", {1, 2}),
        ("bert-large", {3}),
        ("GPT2-XL", {4}),
        ("vgg16", {0, 1, 2, 3, 4}),
    ],
)
def test_a_model_that_names_a_workload(model, may_be):
    found = workloads(trace([(f"j{i}", "", "", model, 1) for i in range(60)]), NAMES, 7)
    assert set(found.tolist()) == may_be


def test_seeds_and_sizes_matter():
    jobs = trace([(f"j{i}", f"u{i}", "train", "", 1) for i in range(50)])
    assert (workloads(jobs, NAMES, 1) != workloads(jobs, NAMES, 2)).any()
    larger = trace([(f"j{i}", f"u{i}", "train", "", 2) for i in range(50)])
    assert (workloads(jobs, NAMES, 1) != workloads(larger, NAMES, 1)).any()


def test_each_is_drawn_as_often_and_many_jobs_take_no_longer_each():
    def many(n):
        times = {"submit": np.arange(n), "duration": np.full(n, 1000), "gpus": np.full(n, 1000)}
        return Trace.of("made", [f"j{i}" for i in range(n)], **times)

    n = 100_000
    assert growth(lambda jobs: workloads(jobs, NAMES, 1), many(n // 16), many(n)) < FAR_BELOW_QUADRATIC
    found = workloads(many(n), NAMES, 1)
    assert found.dtype == np.int64
    assert np.bincount(found) == pytest.approx(n / len(NAMES), rel=0.05)


@pytest.mark.parametrize("way", SHARING)
def test_what_a_run_knows(way):
    jobs = trace([(f"j{i}", f"u{i % 7}", "", "", 1) for i in range(40)])
    of_job, uses, speed = workloads_of(jobs, 3, way)
    found, n = measured(way), len(workload_names())
    assert of_job.tolist() == workloads(jobs, workload_names(), 3).tolist()
    assert uses.shape == (3, n + 1)
    assert uses[:, :n].tolist() == [found.gpu_util.tolist(), found.mem_mib.tolist(), found.mem_util.tolist()]
    assert np.isnan(uses[:, n]).all()
    assert (speed[:n, :n] == found.speeds()).all()
    assert not speed[n].any()
    assert not speed[:, n].any()
