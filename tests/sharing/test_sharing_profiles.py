"""Tables of what was measured: read right, refused with a reason."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from shunter.errors import SharingError
from shunter.sharing.measuring import CONFIGURATIONS, PAIRS, SOLO
from shunter.sharing.profiles import measured, read

SOLO_ROWS = ("a-b8,recurrent,8,0,12.5,30.5,10,900", "b-b4-amp,transformer,4,1,2.25,95,60,8000")
PAIR_ROWS = ("a-b8,a-b8,0.9,0.8,55,20,1800", "a-b8,b-b4-amp,0.7,0.95,99,66,8900")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "solo.csv").write_text("\n".join([",".join(SOLO), *SOLO_ROWS]) + "\n")
    (tmp_path / "pairs.csv").write_text("\n".join([",".join(PAIRS), *PAIR_ROWS]) + "\n")
    (tmp_path / "about.json").write_text(json.dumps({"gpu": "Card 1", "seconds": 8}))
    return tmp_path


def test_tables(folder):
    found = read(folder)
    assert found.names == ("a-b8", "b-b4-amp")
    assert found.models == ("a", "b")
    assert found.steps_per_s.tolist() == [12.5, 2.25]
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
        ("solo.csv", "2.25,", "0,", "steps_per_s of b-b4-amp must be more than 0"),
        ("solo.csv", "95,60", "195,60", "line 3: gpu_util must be a number from 0 to 100, got '195'"),
        ("solo.csv", "95,60", "nan,60", "gpu_util must be a number from 0 to 100, got 'nan'"),
        ("solo.csv", "95,60", "95", "line 3: must have 8 fields, got 7"),
        ("solo.csv", "\n".join(("", *SOLO_ROWS)), "", "has no workload; measure some"),
        ("pairs.csv", "a-b8,b-b4-amp", "a-b8,c-b1", "line 3: solo.csv has no workload c-b1"),
        ("pairs.csv", "0.7,", "fast,", "line 3: speed1 must be a number from 0 to 2, got 'fast'"),
        ("pairs.csv", "0.7,", "7,", "speed1 must be a number from 0 to 2, got '7'"),
        ("about.json", "{", "", "is no JSON"),
        ("about.json", "gpu", "card", "must name the gpu and the seconds"),
        ("about.json", "8", "0", "must name the gpu and the seconds"),
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
    with pytest.raises(SharingError, match=r"about\.json: can't be read"):
        read(folder)
    (folder / "solo.csv").unlink()
    with pytest.raises(SharingError, match=r"has no solo\.csv, nor has any folder in it"):
        read(folder)


def test_workloads_alone(folder):
    (folder / "pairs.csv").unlink()
    assert np.isnan(read(folder).pair).all()


def test_measured_again_at_the_end(folder):
    """Speeds were told by the first row; both rows count as the speed alone."""
    rows = [row.replace(",12.5,", ",7.5,") for row in SOLO_ROWS]
    (folder / "solo.csv").write_text("\n".join([",".join(SOLO), *SOLO_ROWS, rows[0]]))
    assert read(folder).steps_per_s.tolist() == [12.5, 2.25]  # not all are there twice
    (folder / "solo.csv").write_text("\n".join([",".join(SOLO), *SOLO_ROWS, *rows]))
    found = read(folder)
    assert found.steps_per_s.tolist() == [10, 2.25]
    assert found.pair[0, 1] == pytest.approx(0.7 * 12.5 / 10)
    assert found.spread.tolist() == [0.5, 0]


def test_several_runs(folder, tmp_path_factory):
    """Steps per second are averaged, weighted by seconds; speeds follow from the means."""
    runs = tmp_path_factory.mktemp("runs")
    shutil.copytree(folder, runs / "one")
    shutil.copytree(folder, runs / "two")
    (runs / "two" / "solo.csv").write_text((folder / "solo.csv").read_text().replace(",12.5,30.5,", ",25,60.5,"))
    (runs / "two" / "about.json").write_text(json.dumps({"gpu": "Card 1", "seconds": 4}))
    (runs / "two" / "pairs.csv").write_text("\n".join([",".join(PAIRS), PAIR_ROWS[1].replace("0.7,", "0.6,")]))
    found = read(runs)
    alone = (8 * 12.5 + 4 * 25) / 12
    assert found.steps_per_s.tolist() == pytest.approx([alone, 2.25])
    assert found.gpu_util[0] == pytest.approx(40.5)
    assert found.pair[0, 1] == pytest.approx((8 * 12.5 * 0.7 + 4 * 25 * 0.6) / 12 / alone)
    assert found.pair[0, 0] == pytest.approx(12.5 * 0.85 / alone)  # in one run only
    assert found.about["runs"] == 2
    (runs / "two" / "about.json").write_text(json.dumps({"gpu": "Card 2", "seconds": 4}))
    with pytest.raises(SharingError, match=r"two: must have the GPU and the workloads of .*one; keep them apart"):
        read(runs)


def test_our_tables_are_whole():
    found = measured()
    assert set(found.names) == {each.name for each in CONFIGURATIONS}
    assert not np.isnan(found.pair).any()
    assert found.about["gpu"] == "NVIDIA H200"
    assert found.gpu_util.min() < 10
    assert found.gpu_util.max() > 95
    full = found.speeds()
    assert ((full > 0.15) & (full <= 1)).all()
    assert 0.05 < found.spread.max() < 0.35  # what one run alone can be wrong by
