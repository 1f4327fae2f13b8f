"""Tables of what was measured: read right, refused with a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shunter.cluster import SHARING
from shunter.errors import SharingError
from shunter.sharing.measuring import CONFIGURATIONS, PAIRS, SOLO
from shunter.sharing.profiles import measured, read

SOLO_ROWS = (
    "a-b8,recurrent,8,0,100,1,12.5,30.5,10,900,99,200,nan,nan,nan",
    "b-b4-amp,transformer,4,1,102,1,2.25,95,60,8000,99,600,80,40,50",
)
PAIR_ROWS = (
    "a-b8,a-b8,101,1,11.25,10,55,20,200,nan,nan,nan",
    "a-b8,b-b4-amp,103,1,8.75,2.1375,99,66,600,nan,nan,nan",
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "solo.csv").write_text("\n".join([",".join(SOLO), *SOLO_ROWS]) + "\n")
    (tmp_path / "pairs.csv").write_text("\n".join([",".join(PAIRS), *PAIR_ROWS]) + "\n")
    (tmp_path / "about.json").write_text(json.dumps({"gpu": "Card 1"}))
    return tmp_path


def test_tables(folder):
    found = read(folder)
    assert found.names == ("a-b8", "b-b4-amp")
    assert found.models == ("a", "b")
    assert found.steps_per_s.tolist() == pytest.approx([12.5, 2.25])
    assert found.gpu_util.tolist() == [30.5, 95]
    assert found.mem_mib.tolist() == [900, 8000]
    assert found.pair[0, 0] == pytest.approx(0.85)  # both copies
    assert found.pair[[0, 1], [1, 0]].tolist() == pytest.approx([0.7, 0.95])
    assert np.isnan(found.pair[1, 1])
    assert found.index("b-b4-amp") == 1
    with pytest.raises(SharingError, match="no workload 'a-b9'; did you mean 'a-b8'"):
        found.index("a-b9")


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("solo.csv", "name,kind", "nom,kind", "must begin with the line name,kind,batch"),
        ("solo.csv", ",2.25,", ",0,", "steps_per_s of b-b4-amp must be more than 0"),
        ("solo.csv", "95,60", "195,60", "line 3: gpu_util must be a number from 0 to 100, got '195'"),
        ("solo.csv", "95,60", "nan,60", "gpu_util must be a number from 0 to 100, got 'nan'"),
        ("solo.csv", "95,60", "95", "line 3: must have 15 fields, got 14"),
        ("solo.csv", "\n".join(("", *SOLO_ROWS)), "", "has no workload; measure some"),
        ("pairs.csv", "a-b8,b-b4-amp", "a-b8,c-b1", "line 3: solo.csv has no workload c-b1"),
        ("pairs.csv", "8.75,", "fast,", "line 3: steps_per_s1 must be a number from 0 to 25, got 'fast'"),
        ("pairs.csv", "8.75,", "87.5,", "steps_per_s1 must be a number from 0 to 25, got '87.5'"),
        ("about.json", "{", "", "is no JSON"),
        ("about.json", "gpu", "card", "must name the gpu"),
    ],
)
def test_bad_tables(folder, name, old, new, said):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    with pytest.raises(SharingError, match=said):
        read(folder)


def test_missing_tables(folder):
    (folder / "about.json").unlink()
    with pytest.raises(SharingError, match=r"about\.json: there is no such file"):
        read(folder)
    (folder / "solo.csv").unlink()
    with pytest.raises(SharingError, match=r"has no solo\.csv; measure"):
        read(folder)


def test_workloads_alone(folder):
    (folder / "pairs.csv").unlink()
    assert np.isnan(read(folder).pair).all()


def drifting(folder, factor):
    """Tables in which the CPU is slower by a factor in the second half of the time, for who waits for it."""
    solo, pairs = [",".join(SOLO)], [",".join(PAIRS)]
    for at in range(0, 400, 4):
        pace = factor if at >= 200 else 1.0
        solo.append(f"a-b8,recurrent,8,0,{at},1,{100 * pace},0,0,900,99,200,nan,nan,nan")
        solo.append(f"b-b4,transformer,4,0,{at + 1},1,50,100,60,8000,99,600,nan,nan,nan")
    for at, pace in ((100, 1.0), (300, factor)):
        pairs.append(f"a-b8,b-b4,{at},1,{80 * pace},25,99,66,600,nan,nan,nan")
    (folder / "solo.csv").write_text("\n".join(solo))
    (folder / "pairs.csv").write_text("\n".join(pairs[:2]))
    early = read(folder)
    (folder / "pairs.csv").write_text("\n".join([pairs[0], pairs[2]]))
    return early, read(folder)


def test_the_drift_of_the_cpu_is_no_loss(folder):
    """A pair that was measured while the CPU was slow counts like one that was measured while it was not."""
    early, late = drifting(folder, 0.7)
    assert early.pair[0, 1] == pytest.approx(0.8, abs=0.03)
    assert late.pair[0, 1] == pytest.approx(0.8, abs=0.03)
    assert late.pair[1, 0] == pytest.approx(0.5)  # it never waits for the CPU
    assert late.spread.tolist() == pytest.approx([0.3 / 0.85, 0])


@pytest.mark.parametrize("way", SHARING)
def test_our_tables_are_whole(way):
    found = measured(way)
    assert set(found.names) == {each.name for each in CONFIGURATIONS}
    assert found.names == measured().names  # a job's workload is a number in all tables
    assert ((~np.isnan(found.pair)).sum(axis=1) >= 13).all()  # itself and twelve others
    assert not np.isnan(np.diag(found.pair)).any()
    assert (found.about["gpu"], found.about["mps"]) == ("NVIDIA H200", way == "mps")
    assert found.gpu_util.min() < 10
    assert found.gpu_util.max() > 95
    full = found.speeds()
    assert ((full >= 0.1) & (full <= 1)).all()


def test_mps_helps_workloads_that_wait_for_turns():
    """PPO waits for each of its tiny kernels: beside others it has a fraction of its speed in turns, not with MPS."""
    slices, mps = measured(), measured("mps")
    for name in ("ppo-b256", "ppo-b64"):
        own = slices.index(name)
        assert np.nanmean(slices.pair[own]) < 0.6
        assert np.nanmean(mps.pair[own]) > 0.9
    busy = np.flatnonzero(slices.gpu_util > 80)
    assert np.nanmean(slices.pair[np.ix_(busy, busy)]) < 0.55
    assert np.nanmean(mps.pair[np.ix_(busy, busy)]) > 0.6
