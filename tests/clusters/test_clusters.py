"""Clusters from specifications, TOML files, names, and sized for a trace; and their mistakes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter.cluster import SHARING, Cluster, NodeGroup, Overheads, Tier
from shunter.clusters import load, names, to_toml
from shunter.errors import ClusterError
from shunter.model import Trace
from shunter.traces.synthetic import synthetic

DATA = Path(os.environ.get("SHUNTER_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))


def toml(folder: Path, text: str) -> str:
    path = folder / "c.toml"
    path.write_text(text)
    return str(path)


def test_specifications() -> None:
    assert load("64x8") == Cluster("64x8", (NodeGroup(64, 8),))
    assert load(" 16x8:v100+16x2:p100 ").groups == (NodeGroup(16, 8, "v100"), NodeGroup(16, 2, "p100"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("64x", ["'64x'", "64x8"]),
        ("0x8", ["1 to 100000", "'0x8'"]),
        ("8x0", ["1 to 1000", "'8x0'"]),
        ("-1x8", ["'-1x8'", "64x8"]),
        ("8x8:", ["'8x8:'"]),
        ("8x8+", ["got ''"]),
        ("8x8:v100+x2", ["got 'x2'"]),
        ("1.5x8", ["'1.5x8'"]),
        ("9" * 5000 + "x8", ["64x8"]),
        ("100001x8", ["1 to 100000"]),
        ("axb", ["no cluster 'axb'", "64x8", ".toml", "auto"]),
        ("", ["no cluster ''"]),
        ("phily", ["did you mean 'philly'?"]),
        ("dally-3rack", ["did you mean 'dally-"]),
        ("nowhere.toml", ["nowhere.toml", "no such file", "philly"]),
        ("/", ["folder"]),
        ("a\0b.toml", ["cannot be read"]),
        ("auto", ["trace"]),
    ],
)
def test_what_names_no_cluster_is_reported(text: str, parts: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        load(text)
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


SIZES = {
    "dally-2rack": (16, 128),
    "dally-4rack": (32, 256),
    "dally-8rack": (64, 512),
    "dally-16rack": (128, 1024),
    "helios-venus": (135, 1080),
    "pai": (1814, 6742),
    "philly": (352, 2816),
    "qoredl-24": (24, 122),  # slots: instances of a job
    "qoredl-5gpu": (5, 14),
    "qoredl-7": (7, 44),  # slots
    "rltune-helios": (54, 432),
    "rltune-slurm": (5, 13),
}


def test_ready_made_clusters_have_their_published_sizes() -> None:
    assert {name: (load(name).nodes, load(name).gpus) for name in names()} == SIZES
    assert all(load(name).name == name for name in names())
    assert len(load("philly").vcs) == 11
    assert len(load("helios-venus").vcs) == 15
    assert load("dally-16rack").node_rack.max() == 15
    pai = load("pai")
    gpus = np.bincount(pai.node_type, weights=pai.node_gpus)
    assert dict(zip(pai.gpu_types, gpus, strict=True)) == {
        "t4": 994,
        "misc": 2240,
        "p100": 1596,
        "v100-16": 832,
        "v100-32": 1080,
    }


FULL = """
name = "lab"
sharing = "mps"
[[nodes]]
count = 20
gpus = 8
type = "v100"
cpus = 96
mem_gib = 512.5
vc = "prod"
rack_size = 8
[[nodes]]
count = 3
gpus = 2
type = "k80"
racks = [2, 1]
[speeds]
k80 = 0.25
[[tier]]
name = "machine"
bandwidth_gbps = 112.5
latency_us = 0.5
topology = "ring"
[vc_priority]
prod = 1
[overheads]
checkpoint = [[1, 7], [8, 30.5]]
restart = 5
wake = 60
"""


def test_every_field_of_the_toml_form(tmp_path: Path) -> None:
    assert load(toml(tmp_path, FULL)) == Cluster(
        "lab",
        (NodeGroup(20, 8, "v100", 96, 512.5, "prod", (8, 8, 4)), NodeGroup(3, 2, "k80", racks=(2, 1))),
        speeds={"k80": 0.25},
        tiers=(Tier("machine", 112.5, 0.5, "ring"),),
        vc_priority={"prod": 1},
        overheads=Overheads(((1, 7), (8, 30.5)), ((1, 5),), 60),
        sharing="mps",
    )


def test_a_file_without_a_name_is_named_after_itself(tmp_path: Path) -> None:
    assert load(toml(tmp_path, "[[nodes]]\ncount = 1\ngpus = 1\n")).name == "c"


def test_one_number_of_seconds_is_paid_by_every_size() -> None:
    steps = ((1, 5.0),)
    assert Overheads.of(steps, np.array([1, 2, 64])).tolist() == [5000, 5000, 5000]


def test_written_back_and_read_again_it_is_the_same(tmp_path: Path) -> None:
    for cluster in [*map(load, names()), load("16x8:v100+16x2:p100"), load(toml(tmp_path, FULL))]:
        assert load(toml(tmp_path, to_toml(cluster))) == cluster


text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
amount = st.floats(0, 1e9)
steps = st.dictionaries(st.integers(1, 1000), amount).map(lambda found: tuple(sorted(found.items())))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        racks = tuple(draw(st.lists(st.integers(1, 9), max_size=4)))
        count = sum(racks) or draw(st.integers(1, 100_000))
        vc = draw(st.just("") | text)
        groups.append(NodeGroup(count, draw(st.integers(1, 1000)), draw(text), draw(amount), draw(amount), vc, racks))
    tiers = draw(st.lists(text, unique=True, max_size=5))
    joins = [draw(st.integers(2, 9)) if 1 < index < len(tiers) - 1 else 0 for index in range(len(tiers))]
    kinds = st.sampled_from([group.gpu_type for group in groups])
    vcs = [group.vc for group in groups if group.vc]
    return Cluster(
        draw(text),
        tuple(groups),
        draw(st.dictionaries(kinds, st.floats(1e-9, 1e9))),
        tuple(
            Tier(name, draw(st.floats(1e-9, 1e9)), draw(amount), draw(st.sampled_from(["ring", "full"])), joined)
            for name, joined in zip(tiers, joins, strict=True)
        ),
        draw(st.dictionaries(st.sampled_from(vcs), st.floats(0, 1))) if vcs else {},
        Overheads(draw(steps), draw(steps), draw(amount)),
        draw(st.sampled_from(SHARING)),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cluster=clusters())
def test_any_cluster_survives_the_round_trip(tmp_path: Path, cluster: Cluster) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(to_toml(cluster).encode())
    assert load(str(path)) == cluster


def tiers(*joins: int) -> str:
    """Tiers as a file has them, with ``joins`` where it is not 0."""
    lines = [f"name = 't{index}'\nbandwidth_gbps = 1\nlatency_us = 1\n" for index in range(len(joins))]
    more = [f"joins = {number}\n" if number else "" for number in joins]
    return "".join(f"[[tier]]\n{line}{end}" for line, end in zip(lines, more, strict=True))


GOOD = "[[nodes]]\ncount = 4\ngpus = 8\n"
BAD = {
    "empty": ("", ["nodes is missing"]),
    "no such sharing": ('sharing = "mpi"\n' + GOOD, ["sharing must be 'time-slice' or 'mps', got 'mpi'"]),
    "no groups": ("nodes = []\n", ["nodes", "at least 1 item"]),
    "malformed": (GOOD + "type = v100\n", ["c.toml line 4", "not valid TOML"]),
    "cut off": (GOOD + 'type = "v1', ["c.toml line 4", "not valid TOML"]),
    "key twice": (GOOD + "gpus = 4\n", ["line 4", "not valid TOML"]),
    "nested": ("a = " + "[" * 5000, ["not valid TOML"]),
    "endless number": ("a = " + "9" * 5000, ["not valid TOML"]),
    "unknown key": (GOOD + "gpu_type = 'x'\nrakcs = [4]\n", ["[[nodes]] 1: rakcs is not known; did you mean 'racks'?"]),
    "unknown table": (GOOD + "[speed]\nv100 = 1\n", ["speed is not known; did you mean 'speeds'?"]),
    "unknown cost": (GOOD + "[overheads]\nrestarts = 1\n", ["[overheads]: restarts is not known", "'restart'"]),
    "missing": ("[[nodes]]\ncount = 4\n", ["[[nodes]] 1: gpus is missing"]),
    "second group": (GOOD + "[[nodes]]\ncount = 0\ngpus = 8\n", ["[[nodes]] 2: count must be greater", "got 0"]),
    "text for a number": (
        '[[nodes]]\ncount = "4"\ngpus = 8\n',
        ["[[nodes]] 1: count must be a valid integer, got '4'"],
    ),
    "truth for a number": ("[[nodes]]\ncount = true\ngpus = 8\n", ["[[nodes]] 1: count must be a valid integer"]),
    "negative memory": (GOOD + "mem_gib = -1\n", ["[[nodes]] 1: mem_gib must be", "got -1"]),
    "not a number": (GOOD + "cpus = nan\n", ["[[nodes]] 1: cpus must be"]),
    "racks don't add up": (GOOD + "racks = [2, 1]\n", ["[[nodes]] 1 racks must add up to count = 4, but are 3"]),
    "racks twice": (GOOD + "racks = [4]\nrack_size = 2\n", ["not both"]),
    "empty rack": (GOOD + "racks = [4, 0]\n", ["[[nodes]] 1: racks.1 must be"]),
    "negative speed": (GOOD + "[speeds]\ngpu = -1\n", ["[speeds]: gpu must be greater than 0, got -1"]),
    "speed of nothing": (GOOD + "[speeds]\nv100 = 2\n", ["[speeds] 'v100' is the GPU type of no nodes"]),
    "priority of nobody": (
        GOOD + 'vc = "prod"\n[vc_priority]\nprd = 1\n',
        ["[vc_priority] 'prd'", "did you mean 'prod'?"],
    ),
    "priority above 1": (GOOD + 'vc = "a"\n[vc_priority]\na = 2\n', ["[vc_priority]: a must be less", "got 2"]),
    "same tier": (GOOD + "[[tier]]\nname = 'a'\nbandwidth_gbps = 1\nlatency_us = 1\n" * 2, ["unique", "'a'"]),
    "topology": (
        GOOD + "[[tier]]\nname = 'a'\nbandwidth_gbps = 1\nlatency_us = 1\ntopology = 'star'\n",
        ["[[tier]] 1: topology must be 'switch', 'ring' or 'full', got 'star'"],
    ),
    "no bandwidth": (GOOD + "[[tier]]\nname = 'a'\nlatency_us = 1\n", ["[[tier]] 1: bandwidth_gbps is missing"]),
    "bandwidth 0": (
        GOOD + "[[tier]]\nname = 'a'\nbandwidth_gbps = 0\nlatency_us = 1\n",
        ["[[tier]] 1: bandwidth_gbps must be greater than 0, got 0"],
    ),
    "negative latency": (
        GOOD + "[[tier]]\nname = 'a'\nbandwidth_gbps = 1\nlatency_us = -1\n",
        ["[[tier]] 1: latency_us must be", "got -1"],
    ),
    "a tier between that joins all": (
        GOOD + tiers(0, 0, 0, 0),
        ["tier 't2': joins must be 2", "'t3' is above", "'t1'"],
    ),
    "a rack that joins": (
        GOOD + tiers(0, 2, 0),
        ["tier 't1': joins must not be given, got 2", "[[nodes]]", "remove it"],
    ),
    "a last tier that joins": (GOOD + tiers(0, 0, 4, 2), ["tier 't3': joins must not be given, got 2", "joins all"]),
    "joins one": (GOOD + tiers(0, 0, 1, 0), ["[[tier]] 3: joins must be greater than or equal to 2, got 1"]),
    "cost": (GOOD + "[overheads]\nrestart = -1\n", ["[overheads]: restart must have", "got -1"]),
    "cost as text": (GOOD + "[overheads]\nrestart = 'a'\n", ["[overheads]: restart must be seconds", "got 'a'"]),
    "steps": (GOOD + "[overheads]\ncheckpoint = [[8, 1], [1, 2]]\n", ["checkpoint must have steps with ascending"]),
    "nodes is no list": ("nodes = 3\n", ["nodes must be a valid list, got 3"]),
}


@pytest.mark.parametrize(("content", "parts"), BAD.values(), ids=list(BAD))
def test_bad_files_are_reported(tmp_path: Path, content: str, parts: list[str]) -> None:
    path = toml(tmp_path, content)
    with pytest.raises(ClusterError) as caught:
        load(path)
    assert str(caught.value).startswith(path)
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ClusterError, match="UTF-8"):
        load(str(tmp_path / "c.toml"))


def offered(trace: Trace, gpus: int) -> float:
    return float((trace.gpus / 1000 * trace.duration).sum() / ((trace.submit[-1] - trace.submit[0]) * gpus))


def test_auto_reaches_the_load() -> None:
    trace = synthetic(5000, seed=0, gpus=128, load=0.85)
    assert load("auto", trace) == Cluster("auto-16x8", (NodeGroup(16, 8),))
    half = load("auto:load=0.425, gpus_per_node=4", trace)
    assert half.name == "auto-64x4"
    assert offered(trace, half.gpus) == pytest.approx(0.425)


def test_auto_has_room_for_the_largest_job() -> None:
    trace = Trace.of("t", ["a", "b"], submit=[0, 10**9], duration=[1000, 1000], gpus=[20_000, 1000])
    assert load("auto", trace).name == "auto-3x8"


def test_auto_of_a_batch_counts_the_longest_job() -> None:
    trace = Trace.of("t", list("abcd"), submit=[0] * 4, duration=[1000] * 4, gpus=[8000] * 4)
    assert load("auto:load=1", trace).name == "auto-4x8"
    assert load("auto", Trace.of("t", ["a"], submit=[5], duration=[0], gpus=[100])).name == "auto-1x8"


def test_auto_makes_a_pool_for_each_gpu_type_asked_for() -> None:
    given = {"submit": [0, 0, 10_000], "duration": [10_000] * 3, "gpus": [8000, 16_000, 3000]}
    trace = Trace.of("t", list("abc"), gpu_type=[0, 2, -1], gpu_types=("k80", "unused", "v100"), **given)
    assert load("auto:load=1", trace).name == "auto-1x8:k80+2x8:v100"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("auto:lod=1", "did you mean 'load'"),
        ("auto:load=x", "load must be a number from 0.01 to 100, got 'x'"),
        ("auto:load=0", "got '0'"),
        ("auto:load=nan", "got 'nan'"),
        ("auto:load", "got ''"),
        ("auto:gpus_per_node=2.5", "whole number"),
        ("auto:load=1,load=2", "once"),
    ],
)
def test_wrong_settings_of_auto_are_reported(text: str, part: str) -> None:
    with pytest.raises(ClusterError, match=part):
        load(text, synthetic(10))


def test_auto_for_the_whole_philly_trace() -> None:
    file = DATA / "philly" / "philly_jobs.csv.gz"
    if not file.exists():
        pytest.skip(f"no Philly trace at {file}; set SHUNTER_DATA")
    import polars as pl

    jobs = pl.read_csv(file, try_parse_dates=True)
    trace = Trace.of(
        "philly",
        [str(row) for row in range(len(jobs))],
        submit=jobs["timestamp"].dt.epoch("ms").to_numpy(),
        duration=(jobs["duration"] * 1000).to_numpy(),
        gpus=(jobs["num_gpus"] * 1000).to_numpy(),
    )
    assert load("auto", trace).name == "auto-36x8"
