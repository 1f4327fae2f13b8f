"""What is missing comes with a command that works where the program is."""

from __future__ import annotations

import pytest

from shunter import extras


@pytest.mark.parametrize(("script", "says"), [(True, "./scripts/install ml"), (False, "pip install 'shunter[ml]'")])
def test_a_clone_installs_by_its_script_and_a_wheel_by_pip(tmp_path, monkeypatch, script, says):
    if script:
        (tmp_path / "scripts").mkdir()
        (tmp_path / "scripts" / "install").touch()
    monkeypatch.setattr(extras, "CHECKOUT", tmp_path)
    assert says in extras.remedy("lightgbm")


def test_a_library_of_no_extra_is_installed_by_its_name():
    assert extras.remedy("pandas") == "install it with: pip install pandas"
