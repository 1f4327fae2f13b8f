"""Tables of what was measured: read right, refused with a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shunter.errors import SharingError
from shunter.sharing.measuring import PAIRS, SOLO
from shunter.sharing.profiles import read

SOLO_ROWS = ("a-b8,recurrent,8,0,12.5,30.5,10,900", "b-b4-amp,transformer,4,1,2.25,95,60,8000")
PAIR_ROWS = ("a-b8,a-b8,0.9,0.8,55,20,1800", "a-b8,b-b4-amp,0.7,0.95,99,66,8900")


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
    assert found.steps_per_s.tolist() == [12.5, 2.25]
    assert found.gpu_util.tolist() == [30.5, 95]
    assert found.mem_mib.tolist() == [900, 8000]
    assert found.pair[0, 0] == pytest.approx(0.85)  # both copies
    assert found.pair[0, 1] == 0.7
    assert found.pair[1, 0] == 0.95
    assert np.isnan(found.pair[1, 1])
    assert found.index("b-b4-amp") == 1
    with pytest.raises(SharingError, match="no workload 'a-b9'; did you mean 'a-b8'"):
        found.index("a-b9")


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("solo.csv", "name,kind", "nom,kind", "must begin with the line name,kind,batch"),
        ("solo.csv", "b-b4-amp", "a-b8", "workload a-b8 is there twice"),
        ("solo.csv", "95,60", "195,60", "line 3: gpu_util must be a number from 0 to 100, got '195'"),
        ("solo.csv", "95,60", "nan,60", "gpu_util must be a number from 0 to 100, got 'nan'"),
        ("solo.csv", "95,60", "95", "line 3: must have 8 fields, got 7"),
        ("solo.csv", "\n".join(("", *SOLO_ROWS)), "", "has no workload; measure some"),
        ("pairs.csv", "a-b8,b-b4-amp", "a-b8,c-b1", "line 3: solo.csv has no workload c-b1"),
        ("pairs.csv", "0.7,", "fast,", "line 3: speed1 must be a number from 0 to 2, got 'fast'"),
        ("pairs.csv", "0.7,", "7,", "speed1 must be a number from 0 to 2, got '7'"),
        ("about.json", "{", "", "is no JSON"),
        ("about.json", "gpu", "card", "must be a table that names the gpu"),
    ],
)
def test_bad_tables(folder, name, old, new, said):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    with pytest.raises(SharingError, match=said):
        read(folder)


@pytest.mark.parametrize("name", ["solo.csv", "pairs.csv", "about.json"])
def test_a_missing_table(folder, name):
    (folder / name).unlink()
    with pytest.raises(SharingError, match=rf"{name}: can't be read"):
        read(folder)
