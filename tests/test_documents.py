"""The documents say what the code says: columns, policies, summary keys, cluster fields, and commands that run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import shunter
from shunter import clusters, registry, simulation
from shunter.cli.main import app
from shunter.cli.policies import _written
from shunter.model import Trace
from shunter.params import declared
from shunter.reasons import CODES
from shunter.scheduling.leasing.policy import Backfilled, Leasing
from shunter.scheduling.queue.ordering import Ordering
from shunter.setup import set_up
from shunter.traces.checks import REQUIRED
from shunter.world import Job

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


def rows_of(page: str, heading: str) -> list[str]:
    """The rows of the first table after a line that begins so."""
    lines = (REFERENCE / page).read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(heading))
    table = next(i for i in range(begin, len(lines)) if lines[i].startswith("|---"))
    end = next((i for i in range(table, len(lines)) if not lines[i].startswith("|")), len(lines))
    return lines[table + 1 : end]


def cells(row: str) -> list[str]:
    """The cells of a table row; an escaped bar does not end one."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def row(*values: object) -> str:
    return "| " + " | ".join(str(value).replace("|", r"\|") for value in values) + " |"


# ------------------------------------------------------------------------------------------- tables


def column_rows() -> list[str]:
    """What the table of trace columns must say."""
    rows = [row("`job_id`", "name", "required", "", "what the job is called")]
    for name, about in Trace.columns().items():
        needed = name in REQUIRED
        default = about.default / about.scale if about.scale and about.default >= 0 else None
        low, high = (f"{bound:g}" for bound in (about.low, about.high))
        written = "required" if needed else "none" if default is None else f"{default:g}"
        allowed = f"{low} .. {high}" if about.scale else ""
        rows.append(row(f"`{name}`", about.unit or "name", written, allowed, about.doc))
    return rows


def policy_rows() -> list[str]:
    """What the table of policies must say."""
    docs = {name: (registry.policy_class(name).__doc__ or "").partition("\n")[0] for name in ours()}
    return [row(f"`{name}`", doc) for name, doc in docs.items()]


def ours() -> list[str]:
    return [name for name in registry.names() if registry.policy_class(name).__module__.startswith("shunter.")]


def parameter_rows(cls: type, but: set[str], *first: str) -> list[str]:
    about = {key: value for key, value in declared(cls).items() if key not in but}
    return [
        row(*first, f"`{key}`", _written(default), p.range_text(kind), p.doc)
        for key, (kind, default, p) in about.items()
    ]


def ordering_rows() -> list[str]:
    """What the table of the parameters of all that order a queue must say."""
    return parameter_rows(Ordering, set())


def leasing_rows() -> list[str]:
    """What the table of the parameters of all that lease GPUs must say."""
    return parameter_rows(Leasing, set())


def backfilled_rows() -> list[str]:
    """What the table of the parameters of those that also backfill must say."""
    return parameter_rows(Backfilled, set(declared(Leasing)))


def own_parameter_rows() -> list[str]:
    """What the table of the other parameters must say; also of those that have another default."""
    rows = []
    for name in ours():
        cls = registry.policy_class(name)
        leases = Backfilled if issubclass(cls, Backfilled) else Leasing
        base = declared(leases if issubclass(cls, Leasing) else Ordering)
        same = {key for key, about in declared(cls).items() if about[:2] == base.get(key, ())[:2]}
        rows += parameter_rows(cls, same, f"`{name}`")
    return rows


@pytest.mark.parametrize(
    ("page", "heading", "expected"),
    [
        ("trace.md", "## Columns", column_rows),
        ("policies.md", "# Policies", policy_rows),
        ("policies.md", "## Parameters of policies that order a queue", ordering_rows),
        ("policies.md", "## Parameters of policies that lease GPUs", leasing_rows),
        ("policies.md", "## Parameters of dally and tiresias", backfilled_rows),
        ("policies.md", "## Policy-specific parameters", own_parameter_rows),
    ],
)
def test_a_table_says_what_the_code_says(page, heading, expected):
    assert rows_of(page, heading) == expected()


def test_every_field_that_a_key_can_read_is_described():
    described = [cells(line)[0].strip("`") for line in rows_of("policies.md", "### What a key can read")]
    assert described == list(Job._fields)


def test_every_reason_is_described():
    described = {cells(line)[0].strip("`"): cells(line)[1] for line in rows_of("explain.md", "## Reasons")}
    assert described == CODES


def test_every_placement_is_described():
    described = [cells(line)[0].strip("`") for line in rows_of("policies.md", "## Placements")]
    assert sorted(described) == sorted(declared(Ordering)["placement"][2].choices)


def test_every_trace_format_is_described():
    from shunter.traces import formats, reader

    told = [cells(line)[:2] for line in rows_of("formats.md", "# Trace formats")]
    assert told == [[f"`{name}`", reader(name).doc] for name in formats()]


def test_the_example_of_a_reader_reads(tmp_path):
    (block,) = blocks(REFERENCE / "formats.md", "python")
    own = types.ModuleType("joblog")
    exec(compile(block, "formats.md", "exec"), vars(own))
    (tmp_path / "log").write_text("job;when;secs;cards\na;2024-05-01 09:00:00;60;2\n")
    assert shunter.read_trace(tmp_path / "log", format=own).gpus.tolist() == [2000]


# ------------------------------------------------------------------------------------------- the summary


def flat(tree, prefix=""):
    """Every key of a summary as the page writes it."""
    if not isinstance(tree, dict):
        return [prefix]
    if "p50" in tree:
        assert list(tree) == ["mean", "p50", "p90", "p95", "p99", "max"]
        return [f"{prefix}.…"]
    named = {"by_size": "N", "by_vc": "VC", "tiers": "TIER", "by_user": "USER"}
    names = named.get(prefix.rpartition(".")[2].removeprefix("lateness_"))
    inner = [(names or key, value) for key, value in tree.items()]
    return [key for name, value in inner for key in flat(value, f"{prefix}.{name}" if prefix else name)]


def test_every_key_of_the_summary_is_defined_and_no_other():
    trace = Trace.of(
        "two", ["a", "b"], submit=[0, 0], duration=[5, 5], gpus=[1000, 1000], vc=[0, 0], vcs=("only",),
        recorded_wait=[0, 0],
    )  # fmt: skip
    tiers = clusters.load("dally-2rack").tiers
    cluster = shunter.Cluster("one", (shunter.cluster.NodeGroup(1, 2, vc="only"),), tiers=tiers)
    summary = simulation.run(set_up(trace, cluster, network="profiled"), "fifo").summary
    told = [cells(line)[0].strip("`") for line in rows_of("summary.md", "# The summary")]
    assert told == list(dict.fromkeys(flat(summary)))


def test_every_key_that_only_some_policies_report_is_defined():
    summary = shunter.simulate("synthetic:jobs=20,gpus=8", "4x2", "lucid:estimate=rolling").summary
    told = [cells(line)[0].strip("`") for line in rows_of("summary.md", "## Predictions and sharing")]
    assert told == [key for name in ("prediction", "sharing") for key in flat(summary[name], name)]


def test_every_number_about_energy_is_defined_and_no_other():
    from shunter.report.energy import energy

    told = [cells(line)[0].strip("`") for line in rows_of("summary.md", "## Energy")]
    log = shunter.simulate("synthetic:jobs=20,gpus=8", "1x8", "fifo").events
    assert told == [f"energy.{key}" for key in flat(energy(log, 1))]


def test_every_number_about_deadlines_is_defined_and_no_other():
    trace = Trace.of(
        "one", ["a"], submit=[0], duration=[5], gpus=[1000], deadline=[9], user=[0], users=("ann",)
    )  # fmt: skip
    summary = shunter.simulate(trace, "1x1", "edf").summary
    told = [cells(line)[0].strip("`") for line in rows_of("summary.md", "## Deadlines")]
    assert told == list(dict.fromkeys(flat(summary["deadlines"], "deadlines")))


def test_every_file_of_a_run_is_described(tmp_path):
    shunter.simulate("synthetic:jobs=20,gpus=8", "1x8", "fifo", decisions=True).save(tmp_path / "run")
    told = {cells(line)[0].strip("`") for line in rows_of("summary.md", "## The folder")}
    assert told == {file.name for file in (tmp_path / "run").iterdir()}


# ------------------------------------------------------------------------------------------- the architecture

LISTED_BY_KIND = {  # folders whose modules the page describes together: one per policy, format, command ...
    "cli", "measuring", "html", "placers", "policies", "quality", "readers", "terminal", "testing", "themis", "lucid",
    "ces", "gandiva", "scored", "twins", "dally", "qssf",
}  # fmt: skip


def test_the_architecture_leads_to_every_module():
    """A newcomer looks up a module, or its folder, on this page alone."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    sources = Path(shunter.__file__).parent
    modules = [path for path in sources.rglob("*.py") if not path.stem.startswith("_")]
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|^  \w.*$", page, re.MULTILINE))))
    folders = {path.parent for path in modules} - {sources}
    assert {path.name for path in folders} <= named
    assert {str(m) for m in modules if m.parent.name not in LISTED_BY_KIND and m.stem not in named} == set()


# ------------------------------------------------------------------------------------------- clusters


def test_every_field_of_a_cluster_file_is_described():
    from shunter.clusters.reading import ClusterForm, NodesForm, OverheadsForm, TierForm

    told = [cells(line)[1].strip("`") for line in rows_of("cluster.md", "## The file")]
    forms = [*NodesForm.model_fields, *TierForm.model_fields, *OverheadsForm.model_fields]
    assert sorted(told) == sorted(["name", "sharing", *forms, "a GPU type", "a virtual cluster"])
    tables = [cells(line)[0].strip("`[]") for line in rows_of("cluster.md", "## The file") if cells(line)[0]]
    assert sorted(["name", "sharing", *tables]) == sorted(ClusterForm.model_fields)


def test_the_example_of_a_cluster_is_one(tmp_path):
    text = re.search(r"```toml\n(.*?)```", (REFERENCE / "cluster.md").read_text(), re.DOTALL)[1]
    (tmp_path / "example.toml").write_text(text)
    found = clusters.load(str(tmp_path / "example.toml"))
    assert (found.nodes, found.vcs, found.speeds) == (21, ("research", "teaching"), {"p100": 0.5})


def test_every_ready_made_cluster_is_named():
    text = (REFERENCE / "cluster.md").read_text()
    assert all(f"`{name}`" in text for name in clusters.names())


# ------------------------------------------------------------------------------------------- the network


def test_table_one_is_what_the_code_gives(data):
    from shunter.network.paper import table

    expected = []
    for paper, profiled in zip(table("paper", data), table("profiled", data), strict=True):
        tiers = paper["paper_percent"].items()
        pairs = [text for tier, printed in tiers for text in (f"{paper['percent'][tier]:,.1f}", f"{printed:,}")]
        expected.append(row(paper["model"], *pairs, f"{profiled['percent']['network']:.2f}"))
    assert rows_of("network.md", "## Dally's Table I") == expected


def test_the_example_of_models_is_one(tmp_path):
    from shunter.network.models import catalogue

    (block,) = blocks(REFERENCE / "network.md", "toml")
    (tmp_path / "mine.toml").write_text(block)
    assert {"mine", "small-gpt"} < set(catalogue(tmp_path / "mine.toml"))


# ------------------------------------------------------------------------------------------- sharing


def sharing_tables(data):
    """Each table that the page speaks of, by its name there."""
    from shunter.sharing import profiles, published

    ours = {"time slices": profiles.measured("time-slice"), "MPS": profiles.measured("mps")}
    return ours | {"Lucid's": published.read(data)[0]}


def test_the_measured_workloads_are_those_of_the_tables():
    from shunter.cluster import SHARING
    from shunter.report.terminal.sharing import workload_records
    from shunter.sharing import profiles, score
    from shunter.sharing.measuring import CONFIGURATIONS

    loops = {each.name: each for each in CONFIGURATIONS}
    trees = [score.shipped_tree(way) for way in SHARING]
    assert blocks(REFERENCE / "sharing.md", "text") == [tree.as_text() + "\n" for tree in trees]
    found = [workload_records(profiles.measured(way), tree) for way, tree in zip(SHARING, trees, strict=True)]
    expected = []
    for both in sorted(zip(*found, strict=True), key=lambda records: records[0]["gpu_util"]):
        loop = loops[both[0]["name"]]
        sizes = [f"{both[0][key]:.0f}" for key in ("gpu_util", "mem_util", "mem_mib")]
        rest = [(f"{one['keeps']:.2f}", f"{one['leaves']:.2f}", score.SCORES[one["score"]]) for one in both]
        expected.append(row(f"`{loop.name}`", loop.kind, *sizes, *rest[0], *rest[1]))
    assert rows_of("sharing.md", "## What was measured") == expected


def test_the_curves_of_sharing_are_those_of_the_tables(data):
    from shunter.sharing.interference import curve

    found = [
        {f"{each['from']:.0f} - {each['to']:.0f}": f"{each['speed']:.2f} ({each['pairs']})" for each in curve(tables)}
        for tables in sharing_tables(data).values()
    ]
    expected = [row(span, *(each[span] for each in found)) for span in found[-1]]
    assert rows_of("sharing.md", "## How speed falls") == expected


def test_what_the_model_of_pairs_says_is_what_the_code_gives(data):
    pytest.importorskip("sklearn", reason="no scikit-learn")
    from shunter.sharing.interference import TERMS, held_out
    from shunter.sharing.judging import GOOD, good_pairs, good_pairs_by_model, good_pairs_by_tree, recall_at

    tables = sharing_tables(data)
    models = [found.interference for found in tables.values()]
    weights = zip(TERMS, *(model.weights for model in models), strict=True)
    expected = [row(term, *(f"{weight:.2f}" for weight in each)) for term, *each in weights]
    expected.append(row("constant", *(f"{model.constant:.2f}" for model in models)))
    assert rows_of("sharing.md", "## Pairs that were not measured") == expected
    errors, finds = [], []
    for name, found in tables.items():
        known = ~np.isnan(found.pair)
        seen = np.minimum(found.pair[known], 1)
        said = [held_out(found, by_model)[known] for by_model in (False, True)]
        errors.append(row(name, *(f"{abs(seen - each).mean():.3f}" for each in (*said, seen.mean()))))
        (slower, _), model, tree = good_pairs(found), good_pairs_by_model(found), good_pairs_by_tree(found)
        shares = (np.mean(slower >= GOOD), *model[1:], recall_at(found, 0.8), *tree[1:])
        finds.append(row(name, len(slower), *(f"{100 * share:.0f} %" for share in shares)))
    assert rows_of("sharing.md", "Errors are the mean") == errors
    assert rows_of("sharing.md", "A pair is **good**") == finds


def test_the_accuracy_of_sharing_is_what_the_code_gives(data):
    pytest.importorskip("sklearn", reason="no scikit-learn")
    from shunter.sharing import published
    from shunter.sharing.score import labels

    tables = sharing_tables(data)
    expected = [accuracy_row(f"{name}, by speed", found, labels(found)) for name, found in tables.items()]
    expected.append(accuracy_row("Lucid's, by hand", *published.read(data)))
    assert rows_of("sharing.md", "## The sharing score") == expected


def accuracy_row(name, profiles, wanted):
    from shunter.sharing.score import THRESHOLDS, accuracy, agreement

    reached = (accuracy(profiles, wanted), accuracy(profiles, wanted, True), agreement(THRESHOLDS, profiles, wanted))
    return row(name, int((wanted >= 0).sum()), *(f"{100 * share:.1f} %" for share in reached))


# ------------------------------------------------------------------------------------------- examples that run


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.fixture
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if blocks(page, "bash")]


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Writes the files that a page says to save, the last version of each."""

    def write(page: Path) -> None:
        text = page.read_text()
        for name, code in re.findall(r"[Ss]ave this as `(\w+)\.py`.*?```python\n(.*?)```", text, re.DOTALL):
            (tmp_path / f"{name}.py").write_text(code)
        for name, content in re.findall(r"```toml\n# (\w+\.toml)\n(.*?)```", text, re.DOTALL):
            (tmp_path / name).write_text(content)

    monkeypatch.syspath_prepend(tmp_path)
    return write


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_one_after_the_other(page, save):
    save(page)
    commands = [shlex.split(line, comments=True) for block in blocks(page, "bash") for line in block.splitlines()]
    for program, *arguments in filter(None, commands):
        assert program == "shunter"
        done = CliRunner().invoke(app, arguments, prog_name="shunter")
        assert done.exit_code == 0, (arguments, done.stderr)


def test_the_pages_that_users_read_first_have_commands():
    assert {"README.md", "start.md", "explain.md", "report.md"} <= {page.name for page in PAGES}


@pytest.mark.usefixtures("_elsewhere")
def test_the_python_of_the_readme_runs(capsys):
    (block,) = blocks(ROOT / "README.md", "python")
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "las" in capsys.readouterr().out


def test_the_first_policy_leads_to_a_figure(save, tmp_path):
    save(ROOT / "docs" / "first-policy.md")
    done = subprocess.run([sys.executable, "figure.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "95 % interval" in done.stdout
    assert "mine.Patient" in (tmp_path / "figure.svg").read_text()


def test_the_python_about_the_network_runs(capsys):
    (block,) = blocks(REFERENCE / "network.md", "python")
    exec(compile(block, "network.md", "exec"), {"__name__": "network"})
    assert float(capsys.readouterr().out.split()[0]) > 3600


def test_the_python_about_sweeps_runs(capsys):
    (block,) = blocks(REFERENCE / "sweep.md", "python")
    exec(compile(block, "sweep.md", "exec"), {"__name__": "sweep"})
    assert "is best in wait_s.mean" in capsys.readouterr().out


@pytest.mark.usefixtures("_elsewhere")
def test_the_python_about_figures_runs(capsys):
    (block,) = blocks(REFERENCE / "figures.md", "python")
    exec(compile(block, "figures.md", "exec"), {"__name__": "figures"})
    assert "times.pdf" in capsys.readouterr().out


def test_every_key_of_a_sweep_file_is_described():
    from shunter.sweeps.form import SweepForm

    named = {name for line in rows_of("sweep.md", "## The file") for name in re.findall(r"`(\w+)`", cells(line)[0])}
    assert named == set(SweepForm.model_fields)


def test_the_example_of_a_csv_is_one(tmp_path):
    (block,) = blocks(REFERENCE / "trace.md", "csv")
    (tmp_path / "jobs.csv").write_text(block)
    trace = shunter.read_trace(tmp_path / "jobs.csv")
    assert (trace.duration.tolist(), trace.limit.tolist()) == ([3600_000, 1800_500], [7200_000, 0])


def test_links_between_pages_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert len(links) > 5
    missing = [(page.name, link) for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {project}\n" in (ROOT / "CITATION.cff").read_text()
