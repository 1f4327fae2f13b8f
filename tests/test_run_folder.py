"""Where a run may be written: in no folder yet, or in an empty one, and never over what came meanwhile."""

from __future__ import annotations

import pytest

import shunter
from shunter.errors import RunError
from shunter.run_folder import new_folder

SMALL = "synthetic:jobs=20,gpus=8,load=1"


def test_an_empty_folder_takes_a_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "both").mkdir()
    shunter.simulate(SMALL, "1x8", "fifo").save(tmp_path / "run")
    shunter.compare(SMALL, "1x8", ["fifo", "lifo"], workers=1, out=tmp_path / "both")
    assert (tmp_path / "run" / "summary.json").is_file()
    assert (tmp_path / "both" / "comparison.json").is_file()


def test_a_folder_with_anything_in_it_does_not(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    result = shunter.simulate(SMALL, "1x8", "fifo")
    for name, force in (("mine", False), ("mine", True), ("link", False)):
        with pytest.raises(RunError, match=r"exists already|is not a run of shunter"):
            result.save(tmp_path / name, force)


def _come_meanwhile(folder):
    folder.mkdir(exist_ok=True)
    (folder / "file").touch()


@pytest.mark.parametrize("there", [True, False])
def test_what_came_meanwhile_is_kept(tmp_path, there):
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
    with pytest.raises(RunError, match="can't be written"), new_folder(folder):
        _come_meanwhile(folder)
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_summary_with_a_key_twice_is_no_run(tmp_path):
    shunter.simulate(SMALL, "1x8", "fifo").save(tmp_path / "run")
    file = tmp_path / "run" / "summary.json"
    file.write_text(file.read_text().rstrip().removesuffix("}") + ', "policy": "sjf"}')
    with pytest.raises(RunError, match="key 'policy' is given twice"):
        shunter.load_run(tmp_path / "run")
