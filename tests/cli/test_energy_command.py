"""``shunter energy``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app


def run(*arguments: str, code: int = 0):
    done = CliRunner().invoke(app, ["energy", *arguments], prog_name="shunter", env=dict(os.environ))
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A node series of twelve days."""
    file = tmp_path_factory.mktemp("nodes") / "nodes.csv"
    steps = np.arange(12 * 144)
    used = (50 + 30 * np.sin(2 * np.pi * steps / 144)).round().astype(int)
    rows = [
        f"{1_600_000_200 + 600 * step},{count},100" for step, count in zip(steps.tolist(), used.tolist(), strict=True)
    ]
    file.write_text("\n".join(["time,active,total", *rows]) + "\n")
    return str(file)


JOBS = (
    "synthetic:jobs=300,gpus=32,load=0.4",
    "-c",
    "4x8",
    "--forecast",
    "last",
    "--set",
    "buffer=1",
    "--set",
    "least=1",
)


def test_a_node_series_before_and_after(nodes):
    found = json.loads(run(nodes, "--forecast", "last", "--test-from", "+9", "--json").stdout)
    after = found["after"]["last"]
    assert (found["series"], found["preset"], after["days"]) == ("nodes.csv", "venus", 3)
    assert found["before"]["node_utilization_awake"] == found["before"]["node_utilization"] == after["node_utilization"]
    assert found["before"]["kwh"] == pytest.approx(after["kwh_without_sleep"])
    assert after["kwh"] < found["before"]["kwh"]
    assert found["from"] == "2020-09-22 12:30:00"


def test_forecasts_side_by_side_and_a_page(nodes, tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("shunter.energy.forecast.ROUNDS", 30)
    page = tmp_path / "energy.html"
    told = run(
        nodes, "--forecast", "lightgbm", "--forecast", "last", "--forecast", "leak", "--report", str(page)
    ).stdout
    assert max(map(len, told.splitlines())) <= 100
    assert all(name in told for name in ("all awake", "lightgbm", "last", "leak", "SMAPE"))
    text = page.read_text()
    assert "Nodes, forecast leak" in text
    run(nodes, "--forecast", "last", "--report", str(page), code=2)
    run(nodes, "--forecast", "last", "--report", str(page), "--force")
    assert "Nodes, forecast leak" not in page.read_text()


def test_settings_change_the_outcome(nodes):
    plain, other = (
        json.loads(run(nodes, "--forecast", "last", "--json", *more).stdout)
        for more in ((), ("--set", "buffer=40", "--set", "idle_w=100", "--preset", "saturn"))
    )
    assert (other["settings"]["buffer"], other["settings"]["least"], other["power"]["idle_w"]) == (40, 1, 100)
    assert other["after"]["last"]["asleep_nodes"] < plain["after"]["last"]["asleep_nodes"]
    assert other["before"]["kwh"] == pytest.approx(plain["before"]["kwh"] / 8)


def test_a_trace_is_simulated_with_and_without(tmp_path):
    found = json.loads(run(*JOBS, "--json").stdout)
    before, after = found["before"], found["after"]["last"]
    assert (before["asleep_nodes"], before["delayed_jobs"]) == (0, 0)
    assert after["asleep_nodes"] > 0
    assert after["wait_s"]["mean"] >= before["wait_s"]["mean"]
    assert after["kwh"] < before["kwh"]
    assert "series" not in found
    at_once = json.loads(run(*JOBS, "--set", "wake=0", "--json").stdout)["after"]["last"]
    assert at_once["delayed_jobs"] == 0
    page = tmp_path / "page.html"
    told = run(*JOBS, "--test-from", "+1", "--report", str(page))
    assert "on its series" in told.stdout
    assert 'id="energy"' in page.read_text()


def test_a_trace_with_two_forecasts_side_by_side():
    told = run(*JOBS, "--forecast", "peak", "--test-from", "+1").stdout
    assert max(map(len, told.splitlines())) <= 100
    assert all(name in told for name in ("last", "peak", "on its series", "simulated"))


def test_settings_are_searched_before_and_judged_later(tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("shunter.energy.forecast.ROUNDS", 5)
    monkeypatch.setattr("shunter.energy.searching.WINDOWS", (6, 36))
    monkeypatch.setattr("shunter.energy.searching.BUFFERS", (0, 5))
    monkeypatch.setattr("shunter.energy.searching.TRIED", 4)
    file, steps = tmp_path / "nodes.csv", np.arange(40 * 144)
    used = (50 + 30 * np.sin(2 * np.pi * steps / 144) + np.random.default_rng(0).normal(0, 3, len(steps))).round()
    rows = [f"{1_600_000_200 + 600 * step},{count:.0f},100" for step, count in zip(steps, used, strict=True)]
    file.write_text("\n".join(["time,active,total", *rows]) + "\n")
    told = run(str(file), "--search", "--test-from", "+20").stdout
    assert max(map(len, told.splitlines())) <= 100
    found = json.loads(run(str(file), "--search", "--test-from", "+20", "--json").stdout)
    for each in found["prices"]:
        ways = {way["kind"]: way for way in each["ways"]}
        assert {way["tried"] for way in ways.values()} == {4}
        for way in ways.values():
            lost = each["price"] * way["shortage_node_steps"] / (100 * 144 * way["days"])
            assert way["net_share"] == pytest.approx(way["asleep_share"] - lost, abs=1e-9)
        value, low, high = ways["lightgbm"]["against_peak"]
        assert low <= value <= high
        assert value == pytest.approx(ways["lightgbm"]["net_share"] - ways["peak"]["net_share"])
    assert ways["peak"]["settings"]["window"] in (6, 36)
    late = run(str(file), "--search", "--test-from", "+35", code=2)
    assert "compared in 12 parts of a day or more, and the time to be judged is 5.0 days" in " ".join(
        late.stderr.split()
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--preset", "mars"), "there is no preset 'mars'"),
        (("--set", "bufer=3"), "did you mean 'buffer'"),
        (("--set", "buffer=many"), "must be a whole number, got 'many'"),
        (("--set", "cooling=0"), "cooling must be 1 or more"),
        (("--forecast", "leek"), "there is no forecast 'leek'; did you mean 'leak'"),
        (
            ("--forecast", "last", "--test-from", "2031-01-01"),
            "must be a day or more, and 0.0 h of it are in the series",
        ),
        (("--forecast", "last", "--test-from", "soon"), "a time must be"),
        (("--test-from", "+3"), "is learned from 7.0 days or more, got 3.0"),
    ],
)
def test_what_is_wrong_about_a_series_is_said(nodes, arguments, said):
    assert said in " ".join(run(nodes, *arguments, code=2).stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("synthetic:jobs=9",), "a trace is simulated on a cluster"),
        (("synthetic:jobs=9", "-c", "4x8", "--forecast", "leak"), "sees the future"),
        (("synthetic:jobs=9", "-c", "4x8", "--search"), "--search needs --since"),
        (("synthetic:jobs=9", "-c", "4x8", "--policy", "fofo", "--forecast", "last"), "there is no policy 'fofo'"),
        (("nowhere.csv", "-c", "4x8"), "nowhere.csv"),
    ],
)
def test_what_is_wrong_about_a_trace_is_said(arguments, said):
    assert said in " ".join(run(*arguments, code=2).stderr.split())
