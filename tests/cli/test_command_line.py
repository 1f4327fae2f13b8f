"""The command line as people use it: what it prints, what it refuses, and how fast it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from shunter import __version__
from shunter.cli.main import app
from shunter.cli.simulate import names_module

SMALL = "synthetic:jobs=100,gpus=16,load=1.2"
HEAVY = {"numpy", "numba", "polars", "pyarrow", "shunter.simulation", "shunter.sim"}


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def shunter(*arguments):
    return CliRunner().invoke(app, list(arguments), prog_name="shunter")


def ok(*arguments):
    result = shunter(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


# ------------------------------------------------------------------------------------------- reports


def test_simulate_and_compare_write_reports(tmp_path):
    ok("simulate", SMALL, "-c", "2x8", "-p", "fifo", "--report", "one.html")
    result = shunter("compare", SMALL, "-c", "2x8", "-p", "fifo", "-p", "las", "--workers", "1", "--report", "two.html")
    assert "report: two.html (open it in a browser)" in result.stderr
    one, two = ((tmp_path / name).read_text() for name in ("one.html", "two.html"))
    assert f"<h1>fifo on {SMALL}, 2x8</h1>" in one
    assert f"<h1>2 policies on {SMALL}, 2x8</h1>" in two
    for text in (one, two):
        assert "Where waiting time went" in text
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["one.html", "two.html"]


@pytest.mark.parametrize("command", [["simulate", SMALL], ["compare", SMALL]])
def test_a_report_is_refused_before_the_run_where_something_is(tmp_path, command):
    (tmp_path / "r.html").write_text("mine")
    arguments = [*command, "-c", "2x8", "-p", "fifo", "--report", "r.html"]
    for more, says in (([], "exists already"), (["--force"], "is not a page of shunter")):
        result = shunter(*arguments, *more)
        assert result.exit_code == 2
        assert says in result.stderr
    assert (tmp_path / "r.html").read_text() == "mine"
    assert shunter(*arguments[:-1], "nowhere/r.html").exit_code == 2


def test_the_demo_ends_with_a_report_but_never_over_something_else(tmp_path, monkeypatch):
    monkeypatch.setattr("shunter.cli.demo.TRACE", SMALL + ",seed={seed}")
    monkeypatch.setattr("shunter.cli.demo.POLICIES", ("fifo", "las"))
    page = tmp_path / "shunter-demo.html"
    assert "report: shunter-demo.html" in shunter("demo").stderr
    first = page.read_text()
    assert shunter("demo", "--seed", "1").exit_code == 0
    assert page.read_text() != first
    page.write_text("mine")
    result = shunter("demo")
    assert result.exit_code == 0
    assert "there will be no report: shunter-demo.html: is not a page of shunter" in result.stderr
    assert page.read_text() == "mine"
    ok("demo", "--json", "--report", "own.html")
    assert (tmp_path / "own.html").exists()


# ------------------------------------------------------------------------------------------- what it prints


def test_simulate_prints_a_table_or_nothing_but_json():
    text = ok("simulate", SMALL, "-c", "2x8", "-p", "fifo")
    for word in ("JCT", "wait", "bounded slowdown", "fragmentation", "digest", "100 of 100"):
        assert word in text
    summary = json.loads(ok("simulate", SMALL, "-c", "2x8", "-p", "fifo", "--json"))
    assert (summary["jobs"], summary["finished"]) == (100, 100)


def test_simulate_keeps_a_run_and_runs_it_again():
    first = json.loads(ok("simulate", SMALL, "-c", "2x8", "-p", "fifo", "--seed", "3", "--out", "run", "--json"))
    again = json.loads(ok("simulate", "run/experiment.toml", "--json"))
    assert (again["digest"], again["seed"]) == (first["digest"], 3)
    changed = json.loads(ok("simulate", "run/experiment.toml", "--set", "policy=sjf", "--seed", "4", "--json"))
    assert (changed["policy"][:3], changed["seed"]) == ("sjf", 4)
    larger = json.loads(ok("simulate", "run/experiment.toml", "-c", "4x8", "--json"))
    assert larger["utilization"] < first["utilization"]


@pytest.mark.parametrize(
    "setting",
    [
        'policy = "planted.Mine"',
        'policy = "ces:policy=planted.Mine"',
        'policy = "fifo:backfill=easy,placement=planted.place"',
        'policy = "sjf:estimate=planted.Model"',
        'policy = "fifo:placement=123.place"',
        'policy = "fifo:placement=evil-.place"',
        'policy = "=e-.X"',
        'policy = "ces:policy=fifo:placement=planted.place"',
        'policy = "fifo"\n[trace]\nformat = "planted.a"',
    ],
)
def test_code_that_an_experiment_of_others_names_is_not_imported(setting, tmp_path):
    for name in ("planted", "123", "evil-", "=e-"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')\n")
    (tmp_path / "theirs.toml").write_text(setting + "\n")
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\na,0,1,1\n")
    result = shunter("simulate", "theirs.toml", "--set", "trace.path=jobs.csv", "-c", "2x8")
    assert result.exit_code == 2
    assert "name it yourself" in " ".join(result.stderr.split())
    assert not (tmp_path / "executed").exists()


def test_numbers_of_an_experiment_of_others_are_no_modules():
    texts = ("fifo:bound=0.5", "gandiva:growth=.5,lease=1e3", "themis:speeds=1/0.8/0.6", "sjf:backfill=easy", "csv")
    assert not any(map(names_module, texts))


def test_compare_prints_differences_with_their_intervals():
    text = ok("compare", SMALL, "-c", "2x8", "-p", "fifo", "-p", "sjf:estimate=oracle", "--workers", "1")
    for word in ("fifo", "estimate=oracle*", "95 % interval", "an oracle", "preempt."):
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_json_of_a_comparison_is_all_that_is_printed():
    found = json.loads(ok("compare", SMALL, "-c", "auto", "-p", "fifo", "-p", "sjf", "--workers", "1", "--json"))
    assert found["baseline"] == "fifo"
    assert found["policies"][1]["difference"]["pairs"] == 100


def test_what_was_chosen_and_left_out_is_said():
    result = shunter("simulate", SMALL, "-c", "auto", "-p", "fifo", "--json")
    assert "cluster auto:" in result.stderr
    result = shunter("simulate", SMALL, "-c", "1x8", "-p", "fifo", "--drop-unfit", "--json")
    assert "jobs that can never fit" in result.stderr
    assert json.loads(result.stdout)["jobs"] < 100


def test_policies_are_listed_with_their_parameters():
    assert "fifo" in ok("policies")
    assert "none | easy | conservative" in ok("policies", "fifo")
    names = [about["name"] for about in json.loads(ok("policies", "--json"))]
    assert {"fifo", "sjf", "srtf", "las", "multifactor"} <= set(names)


def test_a_cluster_is_drawn_and_written_as_toml(tmp_path):
    assert "64" in ok("cluster", "show", "8x8")
    (tmp_path / "c.toml").write_text(ok("cluster", "show", "8x8", "--toml"))
    assert ok("cluster", "show", "c.toml", "--toml") == (tmp_path / "c.toml").read_text()


def test_a_made_up_trace_can_be_used():
    ok("trace", "synth", "t.parquet", "--jobs", "50")
    assert json.loads(ok("simulate", "t.parquet", "-c", "16x8", "-p", "fifo", "--json"))["jobs"] == 50


def test_a_policy_of_ones_own_in_the_present_folder(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from shunter.params import param\n"
        "from shunter.policies.fifo import Fifo\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Fifo):\n"
        "    alpha: float = param(1.0, 'nothing')\n"
    )
    command = [sys.executable, "-P", "-m", "shunter", "compare", SMALL, "-c", "2x8", "-p", "mine.Mine:alpha=2"]
    done = subprocess.run(
        [*command, "-p", "fifo", "--json", "--workers", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["policies"]
    assert [row["policy"] for row in rows] == ["mine.Mine:alpha=2", "fifo"]
    assert rows[0]["digest"] == rows[1]["digest"]


def test_settings_that_do_nothing_are_reported():
    result = shunter("simulate", SMALL, "-c", "2x8", "-p", "fifo:depth=7", "--json")
    assert "warning: depth does nothing" in result.stderr
    assert json.loads(result.stdout)["finished"] == 100


def test_version_and_help():
    assert ok("--version") == f"shunter {__version__}\n"
    for command in (["simulate"], ["compare"], ["demo"], ["policies"], ["cluster", "show"], ["trace", "synth"]):
        assert f"shunter {' '.join(command)}" in ok(*command, "--help").split("Examples:")[1]


def test_no_colours_in_a_pipe():
    done = subprocess.run(
        [sys.executable, "-m", "shunter", "compare", SMALL, "-c", "2x8", "-p", "fifo", "-p", "sjf", "--workers", "1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


# ------------------------------------------------------------------------------------------- what it refuses

GOOD = ("-c", "2x8", "-p", "fifo")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate", "nowhere.csv", *GOOD], "nowhere.csv: there is no such file"),
        (["simulate", "empty.csv", *GOOD], "empty.csv"),
        (["simulate", "bad.csv", *GOOD], "bad.csv line 2"),
        (["simulate", SMALL, "-c", "2x8", "-p", "fif"], "did you mean 'fifo'"),
        (["simulate", SMALL, "-c", "2x8", "-p", "fifo:blockin=skip"], "did you mean 'blocking'"),
        (["simulate", SMALL, "-c", "2x8", "-p", "fifo:blocking=maybe"], "strict | skip"),
        (["simulate", SMALL, "-c", "phily", "-p", "fifo"], "did you mean 'philly'"),
        (["simulate", SMALL, "-c", "0x8", "-p", "fifo"], "0x8"),
        (["simulate", SMALL, "-c", "2x8"], "no policy; give one"),
        (["simulate", SMALL, "-p", "fifo"], "no cluster; give one"),
        (["simulate", SMALL, "-c", "1x8", "-p", "fifo"], "--drop-unfit"),
        (["simulate", SMALL, "-c", "philly", "-p", "fifo"], "does not name one of the virtual clusters"),
        (["simulate", SMALL, "-c", "philly", "-p", "fifo", "--drop-unfit"], "no job names one"),
        (["simulate", SMALL, "-c", "2x8", "-p", "fifo:blocking=skip,backfill=easy"], "contradicts"),
        (["simulate", SMALL, "-c", "2x2", "-p", "fifo", "-p", "las"], "simulate runs one policy, got fifo, las"),
        (["simulate", SMALL, *GOOD, "--force"], "--force replaces what --out"),
        (["simulate", SMALL, *GOOD, "--set", "policy=sjf"], "by an option and by --set"),
        (["simulate", SMALL, *GOOD, "--set", "sed=1"], "did you mean 'seed'"),
        (["simulate", SMALL, *GOOD, "--out", "there"], "exists already"),
        (["simulate", SMALL, *GOOD, "--out", "bad.csv/run"], "can't be written"),
        (["simulate", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["simulate", SMALL, *GOOD, "--seed", "-1"], "--seed"),
        (["simulate", "synthetic:jobs=0", *GOOD], "jobs must be above 0"),
        (["compare", SMALL, "-c", "2x8"], "no policies; give some"),
        (["compare", SMALL, "-p", "fifo"], "no cluster; give one"),
        (["compare", SMALL, *GOOD, "-p", "fifo"], "more than once"),
        (["compare", SMALL, *GOOD, "--repeat", "0"], "Invalid value for '--repeat'"),
        (["compare", SMALL, *GOOD, "--workers", "0"], "Invalid value for '--workers'"),
        (["compare", SMALL, *GOOD, "--force"], "--force replaces what --out"),
        (["compare", SMALL, *GOOD, "--out", "there"], "exists already"),
        (["compare", SMALL, "-c", "1x8", "-p", "fifo", "-p", "sjf"], "--drop-unfit"),
        (["policies", "srft"], "did you mean 'srtf'"),
        (["cluster", "show", "auto"], "give it with --trace"),
        (["cluster", "show", "8y8"], "8y8"),
        (["trace", "synth", "bad.csv"], "exists already"),
        (["trace", "synth", "t.txt"], ".parquet"),
    ],
)
def test_bad_input_is_reported_with_code_2_and_writes_nothing(tmp_path, arguments, says):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bad.csv").write_text("job_id,submit,duration,gpus\na,0,-5,1\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "something").touch()  # an empty folder may be written to
    result = shunter(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"empty.csv", "bad.csv", "there"}


def test_ctrl_c_is_code_130(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("shunter.simulation.run", interrupt)
    result = shunter("simulate", SMALL, *GOOD)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


# ------------------------------------------------------------------------------------------- how fast it answers


def imported_by(code, **environment):
    """Runs ``code`` in a process of its own, which writes the heavy modules that are loaded then to standard error."""
    tail = f"\nimport sys; sys.stderr.write('|'.join({HEAVY!r} & set(sys.modules)))"
    return subprocess.run(
        [sys.executable, "-c", code + tail],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


def test_help_imports_nothing_heavy():
    """How long it takes is what ``./scripts/bench --only starts`` measures."""
    done = imported_by("from shunter.cli.main import app\ntry: app(['--help'])\nexcept SystemExit: pass")
    assert "compare" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("shunter simulate -p sr", "srtf"), ("shunter compare -c phi", "philly"), ("shunter pol", "policies")],
)
def test_completion_knows_names_and_imports_nothing_heavy(typed, offered):
    code = "from shunter.cli.main import app\ntry: app(prog_name='shunter')\nexcept SystemExit: pass"
    words = {"_SHUNTER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = imported_by(code, **words)
    assert offered in done.stdout.split()
    assert done.stderr == ""


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_numbers_are_never_cut(monkeypatch, columns):
    """A table is wider than a narrow terminal rather than wrong."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    policies = ["-p", "fifo", "-p", "saf:backfill=easy"]
    done = CliRunner().invoke(app, ["compare", "synthetic:jobs=50,gpus=16", "-c", "2x8", *policies])
    assert done.exit_code == 0
    assert "…" not in done.stdout
    assert "saf:backfill=easy" in done.stdout


@pytest.mark.parametrize("columns", ["80", "100"])
def test_columns_is_respected_where_there_is_no_terminal(monkeypatch, columns, tmp_path):
    monkeypatch.setenv("COLUMNS", columns)
    shunter("simulate", "synthetic:jobs=200,gpus=64,load=1.3", "-c", "8x8", "-p", "fifo", "--decisions", "-o",
            str(tmp_path / "run"))  # fmt: skip
    compared = ("compare", "synthetic:jobs=50,gpus=16", "-c", "2x8", "-p", "fifo", "-p", "saf:backfill=easy")
    for command in (compared, ("explain", str(tmp_path / "run")), ("policies",), ("network", "models")):
        done = shunter(*command)
        assert done.exit_code == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= int(columns), command
        assert "…" not in done.stdout, command


def test_a_controller_that_finds_no_slurm_says_so(monkeypatch, tmp_path):
    """With and without an audit log: a command that runs nothing must not look like one that runs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for more in ((), ("--audit-log", "audit.log")):
        result = shunter("slurm", "run", "--policy", "fifo", "--rounds", "1", *more)
        assert result.exit_code == 2, result.stderr
        assert "must be on the PATH" in result.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("deadline 4711 --by nonsense", "--by: 'nonsense' is not a time; write a weekday"),
        ("deadline --by +1h", "set --iterations with --model or --iteration-s, or --time"),
        ("deadline --by +1h --model nonesuch --iterations 5", "there is no model 'nonesuch'"),
        ("deadline 7 --by +1h --iterations 5 --iteration-s 1 --losses none.csv", "none.csv: there is no such file"),
        ("deadline 7 --by +1h --site none.toml", "none.toml: there is no such file"),
        ("slurm what-if --gpus 4 --time nonsense", "--time: a time must look like"),
        ("slurm what-if --gpus 4 --time 5 --mem nonsense", "--mem nonsense"),
        ("slurm what-if --gpus 4 --time 5 --site none.toml", "none.toml: there is no such file"),
        ("slurm when 7 --site none.toml", "none.toml: there is no such file"),
        ("slurm why 7 --site none.toml", "none.toml: there is no such file"),
        ("slurm run --policy auto --candidate nonsense", "the autopilot can't choose 'nonsense'"),
        ("slurm run --policy auto --mode act --guard off", "--policy auto needs the guard in mode act"),
        ("slurm run --policy auto --mode act --guard watch:days=3", "--policy auto needs the guard in mode act"),
        ("slurm import site --on-bad-row nonsense", "on_bad_row must be fail or skip, got 'nonsense'"),
    ],
)
def test_a_mistake_is_reported_before_slurm_is_asked(command, words, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = shunter(*command.split())
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


# ------------------------------------------------------------------------------------------- plain words


def test_help_names_no_types_of_flags():
    for command in (["simulate"], ["sweep", "show"], ["slurm", "run"], []):
        assert "bool" not in ok(*command, "--help")


def test_help_lets_the_terminal_break_lines(monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)
    assert "An interrupted comparison continues when the same command is run again." in ok("compare", "--help")


def test_policies_shows_no_markup_of_docstrings():
    text = ok("policies", "express")
    assert "It is 'gittins' with its defaults." in text
    assert "`" not in text


def test_policies_leaves_the_lines_of_a_paragraph_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "What is not needed now goes to running jobs" in ok("policies", "elastic")


@pytest.mark.parametrize(
    ("options", "said"), [([], True), (["--checkpointable", "all"], False), (["--checkpointable", "none"], False)]
)
def test_runs_with_stops_say_that_every_job_could_be_stopped(options, said):
    for command in (["simulate", SMALL, "-c", "2x8", "-p", "las"], ["compare", SMALL, "-c", "2x8", "-p", "las"]):
        done = shunter(*command, *options)
        assert done.exit_code == 0
        assert ("policies could stop every job" in done.stderr) is said


def test_runs_without_stops_say_nothing_of_them():
    assert "stop every job" not in shunter("simulate", SMALL, "-c", "2x8", "-p", "fifo").stderr


@pytest.mark.parametrize("arguments", [("tune", "--help"), ("policies", "--json"), ("policies",), ("--version",)])
def test_a_reader_that_is_gone_ends_it_quietly(arguments):
    read, write = os.pipe()
    os.close(read)
    code = "from shunter.cli.main import main; main()"
    ended = subprocess.run([sys.executable, "-c", code, *arguments], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_no_help_of_an_option_is_cut():
    shown = CliRunner().invoke(app, ["tune", "--help"], env={"COLUMNS": "100"}).stdout
    assert "…" not in shown
    assert "bluefin-one" in shown


def test_an_option_may_come_before_the_file_of_a_sweep():
    assert "nothing.toml: there is no such file" in shunter("sweep", "--out", "x", "nothing.toml").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "run"], "--report FILE"),
        (["advise", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_what_newcomers_try_is_answered_with_what_to_do(arguments: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert said in " ".join(answer.output.split())
