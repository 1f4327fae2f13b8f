"""How Slurm writes lists of names and of resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import LiveError
from shunter.live.ranges import GPUS, NUMBER
from shunter.slurm.hostlist import expand
from shunter.slurm.nodes import SINFO_HEADER, of_sinfo
from shunter.slurm.tres import Gres, Resources, gres, requested_gpus, resources

NODES = {"good": "gpu:a100:4", "huge": "gpu:a100:1000000"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-11,3]", ["n08", "n09", "n10", "n11", "n3"]),
        ("a[1-2]b[x,y],c", ["a1bx", "a1by", "a2bx", "a2by", "c"]),
        ("", []),
        ("(null)", []),
        ("None assigned", []),
        ("k80-[1-2],m40-1", ["k80-1", "k80-2", "m40-1"]),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[[1]]", "n]1[", "n[5-2]", "n[1-x]", "n[1-999999999]", "a[1-999]b[1-999]"])
def test_bad_hostlists_are_refused(text: str) -> None:
    with pytest.raises(LiveError, match="hostlist"):
        expand(text)


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=20, unique=True), st.sampled_from(["n", "gpu-", "rack1node"])
)
def test_numbers_come_back(numbers: list[int], stem: str) -> None:
    assert expand(f"{stem}[{','.join(f'{n:04d}' for n in numbers)}]") == [f"{stem}{n:04d}" for n in numbers]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu=8,mem=64G,node=2,billing=8,gres/gpu=4,gres/gpu:a100=4", Resources(8, 65536, 2, {"a100": 4})),
        ("cpu=1,mem=100M,node=1,billing=1,gres/gpu=5", Resources(1, 100, 1, {"": 5})),
        ("cpu=2,mem=1.5T,gres/gpu=3,gres/gpu:a=1,gres/gpu:b=2", Resources(2, 1572864, 0, {"a": 1, "b": 2})),
        ("cpu=2,gres/shard=3", Resources(2, shards=3)),
        ("", Resources()),
        ("N/A", Resources()),
    ],
)
def test_tres(text: str, found: Resources) -> None:
    assert resources(text) == found


@pytest.mark.parametrize("count", [10**9, 10**16, 10**18 - 1])
def test_what_no_cluster_has_is_as_much_as_a_snapshot_may_say(count: int) -> None:
    """Slurm takes any number for a job that is held."""
    asked = f"gres:gpu:{count},gres:shard:{count}"
    for found in (
        requested_gpus("PENDING", f"gres/gpu={count},gres/shard={count}", "", "", "1", "", "1"),
        requested_gpus("PENDING", "", asked, "", "1", "", "1"),
        requested_gpus("PENDING", "", "", asked, "4000000000-4000000000", "", "1"),
    ):
        assert found.gpus == GPUS
        assert found.shards < NUMBER
    assert resources(f"cpu={count},mem={count}P").mem_mib < NUMBER
    assert resources("cpu=1,mem=7930948?").mem_mib * 10**6 > 10**18  # as Slurm 22.05 writes more than petabytes


def test_tres_with_words_are_refused() -> None:
    with pytest.raises(LiveError, match="'lots' in 'cpu=lots'"):
        resources("cpu=lots")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:a100:4(IDX:0-1,3)", [Gres("gpu", "a100", 4, (0, 1, 3))]),
        ("gpu:2", [Gres("gpu", "", 2)]),
        ("gpu:4090:8(IDX:0-7)", [Gres("gpu", "4090", 8, tuple(range(8)))]),
        ("gres/gpu:4090=8", [Gres("gpu", "4090", 8)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:tesla", [Gres("gpu", "tesla", 1)]),
        ("gpu:a100_3g.20gb:2(S:0-1)", [Gres("gpu", "a100_3g.20gb", 2)]),
        ("gres:gpu:k80:2", [Gres("gpu", "k80", 2)]),
        ("gres/gpu:k80=2", [Gres("gpu", "k80", 2)]),
        ("gres/gpu=3", [Gres("gpu", "", 3)]),
        ("gpu:p100:4(IDX:0-3),shard:8(0/8,1/8)", [Gres("gpu", "p100", 4, (0, 1, 2, 3)), Gres("shard", "", 8)]),
        ("gpu:0(IDX:N/A)", [Gres("gpu", "", 0)]),
        ("(null)", []),
    ],
)
def test_gres(text: str, found: list[Gres]) -> None:
    assert list(gres(text)) == found


@pytest.mark.parametrize("index", ["0-999999999", "5000", ",".join(["0-4000"] * 3), "0-" + "9" * 18])
def test_gpus_of_a_node_are_bounded_before_they_are_written_out(index):
    with pytest.raises(LiveError, match="at most 4,096 GPUs"):
        gres(f"gpu:a100:4(IDX:{index})")


@pytest.mark.parametrize("index", ["²", "9" * 5000, "3-1", "-"])
def test_what_is_no_number_of_a_gpu_is_none(index):
    assert gres(f"gpu:a100:4(IDX:{index})")[0].index == ()


def test_a_node_with_too_many_gpus_is_left_out_and_named():
    rows = [dict(zip(SINFO_HEADER, (name, "p", "4", "10", has, "idle"), strict=True)) for name, has in NODES.items()]
    unread: dict[str, str] = {}
    assert [node.name for node in of_sinfo(rows, unread)] == ["good"]
    assert "at most 4,096 GPUs, got 1,000,000" in unread["node huge"]


@pytest.mark.parametrize("text", ["n[" + ",".join(["0-99999"] * 30) + "]", ",".join(["n[0-60000]"] * 2)])
def test_a_list_of_too_many_names_is_refused_before_it_is_written_out(text):
    with pytest.raises(LiveError, match="too many names"):
        expand(text)
