"""A site's history and machines from what Slurm's commands print, in the shapes of several releases."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter import clusters, registry, simulation
from shunter.cli.main import app
from shunter.errors import LiveError, TraceError
from shunter.live.machines import machines_of
from shunter.live.nodes import Rack
from shunter.setup import set_up
from shunter.slurm import importing
from shunter.slurm import site as sites
from shunter.slurm.importing import ImportFiles, read_site
from shunter.slurm.nodes import nodes, partitions
from shunter.slurm.scontrol_output import records, seconds, settings
from shunter.slurm.topology import racks
from shunter.traces import read
from shunter.traces.readers import sacct
from shunter.traces.source import Source

FIXTURES = Path(__file__).parent / "fixtures"
WRITTEN = ("21.08", "23.11", "24.05", "25.11")
BEGIN = 1_714_557_600_000  # of the written site's record


def table(trace, *columns):
    """The jobs as a dictionary: names instead of codes, seconds and GPUs instead of thousandths."""
    found = {}
    for row, job in enumerate(trace.job_id):
        values = []
        for column in columns:
            about, value = trace.columns()[column], int(getattr(trace, column)[row])
            names = getattr(trace, trace.names_of(column), ())
            values.append(value / about.scale if about.scale else names[value] if value >= 0 else None)
        found[job] = tuple(values)
    return found


def sources(release, jobs="sacct.txt", **others):
    folder = FIXTURES / release
    files = {"nodes": "nodes.txt", "partitions": "partitions.txt", "config": "config.txt"} | others
    return ImportFiles(folder / jobs, **{key: folder / name for key, name in files.items()})


# ------------------------------------------------------------------------------------------- jobs


JOBS = {  # submit (or when it could run), wait, run, GPUs, type, partition, limit
    "100": (0, 300, 7200, 4, None, "gpu", 93600),
    "101_4": (60, 3540, 30, 1, "v100", "old", 0),
    "110+0": (120, 0, 3600, 2, "a100", "gpu", 3600),
    "110+1": (120, 0, 3600, 1, "a100", "gpu", 3600),
    "114": (200, 200, 600, 2, "a100", "gpu", 7200),
    "115": (1000, 10, 10, 1, "a100", "gpu", 7200),
    "114#2": (1120, 180, 3600, 2, "a100", "gpu", 7200),
    "116": (5000, 100, 2900, 1, None, "gpu", 172800),
}


@pytest.mark.parametrize("shape", ["sacct.txt", "sacct.json"])
@pytest.mark.parametrize("release", WRITTEN)
def test_every_release_and_shape_gives_the_same_jobs(release, shape):
    trace = sacct.read(Source(FIXTURES / release / shape, "sacct"), running=True)
    moved = dataclasses.replace(trace, submit=trace.submit - BEGIN)
    assert table(moved, "submit", "recorded_wait", "duration", "gpus", "gpu_type", "vc", "limit") == JOBS
    assert table(trace, "user", "account", "job_name", "outcome")["101_4"] == ("bob", "speech", "sweep", "cancelled")
    assert table(trace, "cpus", "mem_gib")["100"] == (16, 128)
    told = " ".join(trace.remarks)
    assert "1 job still ran" in told
    assert "2 jobs could run only later" in told
    assert "left out 1 job that still waited" in told
    assert "left out 1 job that was cancelled before it started" in told


@pytest.mark.parametrize("shape", ["sacct.txt", "sacct.json"])
def test_what_was_submitted_to_a_real_slurm_comes_back(shape):
    trace = read(FIXTURES / "22.05" / shape)
    found = table(trace, "gpus", "gpu_type", "limit", "vc", "job_name")
    assert found == {
        "1": (1, None, 300, "main", "plain"),
        "2": (4, "p100", 600, "main", "typed"),
        "3": (12, "p100", 600, "main", "gang"),
        **{f"4_{task}": (1, "k80", 180, "main", "array") for task in range(4)},
        **{f"5_{task}": (9, None, 180, "main", "pending-array") for task in (5, 6, 7)},
        "6+0": (1, "p100", 300, "main", "het"),
        "6+1": (1, "m40", 300, "main", "het"),
        "8": (1, "m40", 600, "main", "fails"),
        "11": (2, "k80", 120, "main", "odd|name,`q`"),
        "11#2": (2, "k80", 120, "main", "odd|name,`q`"),
        "12": (1, None, 600, "urgent", "after"),
        "13": (1, None, 86400, "main", "long"),
    }
    runs_s = table(trace, "duration")
    slept = {"1": 4, "2": 6, "3": 5, "4_0": 3, "6+0": 4, "8": 0, "11": 3, "11#2": 8, "12": 2, "13": 103}
    assert {job: runs_s[job][0] for job in slept} == slept


def test_json_that_holds_no_jobs_is_refused(tmp_path):
    (tmp_path / "j.json").write_text(
        '{"jobs": [], "errors": [{"error": "no database"}], "submission": 1, "allocated": 1}'
    )
    with pytest.raises(TraceError, match=r"list of jobs under 'jobs'.*no database"):
        read(tmp_path / "j.json")


def test_a_running_job_is_a_mistake_unless_it_is_kept():
    with pytest.raises(TraceError, match="has not ended"):
        read(FIXTURES / "25.11" / "sacct.json")


def test_without_constraints_it_is_unknown_whether_another_type_would_have_done(tmp_path):
    lines = (FIXTURES / "24.05" / "sacct.txt").read_text().replace("Constraints", "Comment")
    (tmp_path / "s.txt").write_text(lines)
    trace = sacct.read(Source(tmp_path / "s.txt", "sacct"), running=True)
    assert table(trace, "gpu_type")["100"] == ("a100",)


def test_what_accounting_lacks_is_named_with_the_command(tmp_path):
    (tmp_path / "s.txt").write_text("JobID|Submit|Start\n1|2024-05-01T10:00:00|2024-05-01T10:00:00\n")
    with pytest.raises(TraceError, match=r"missing: End, AllocTRES .*sacct -a -X -P -o JobID,.*Constraints"):
        read_site(dataclasses.replace(sources("24.05"), jobs=tmp_path / "s.txt"))


# ------------------------------------------------------------------------------------------- machines


@pytest.mark.parametrize("release", WRITTEN)
def test_nodes_partitions_and_factors_become_a_cluster(release):
    found = read_site(sources(release))
    cluster = found.cluster
    groups = [(g.count, g.gpus, g.gpu_type, g.cpus, round(g.mem_gib), g.vc) for g in cluster.groups]
    assert groups == [(4, 4, "a100", 64, 503, "gpu"), (2, 2, "v100", 32, 251, "old")]
    assert cluster.name == "site"
    assert cluster.vc_priority == {"gpu": 1.0, "old": 0.5}
    assert "1 node without GPUs is left out" in found.remarks
    assert "1 node is down or drained now and counts as usable" in found.remarks
    tree = "" if release == "21.08" else "fair_tree=true,"  # that one has PriorityFlags=NO_FAIR_TREE
    assert found.site.policy == (
        "multifactor:age=10000,fairshare=50000,size=5000,partition=1000,qos=0,max_age=604800,decay=1.2096e+06,"
        f"bill_gpu=0,bill_cpu=1,{tree}size_by=cpus,favor_small=true,period=300,backfill=conservative,depth=50"
    )
    registry.policy(found.site.policy)


@pytest.mark.parametrize("listing", ["nodes.json", "sinfo.txt"])
def test_nodes_are_the_same_in_every_listing(listing):
    folder = FIXTURES / "24.05"
    assert [dataclasses.replace(node, state="") for node in nodes((folder / listing).read_text())] == [
        dataclasses.replace(node, state="") for node in nodes((folder / "nodes.txt").read_text())
    ]
    away = [node.name for node in nodes((folder / listing).read_text()) if not node.up]
    assert away == ["gpu04"]


@pytest.mark.parametrize(
    ("release", "file", "expected"),
    [
        ("21.08", "topology.conf", [(2, 2), (1, 1)]),
        ("23.11", "topology.conf", [(3, 1), (2,)]),
        ("25.11", "topology.yaml", [(2, 2), (1, 1)]),
    ],
)
def test_leaf_switches_and_blocks_become_racks(release, file, expected):
    found = read_site(sources(release, topology=file))
    assert [group.racks for group in found.cluster.groups] == expected


def test_slurms_own_listing_of_a_tree_is_read_as_the_file_is():
    text = (
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s0\n"
    )
    assert [(rack.name, rack.nodes) for rack in racks(text)] == [("s0", ("n1", "n2"))]
    assert racks("No topology information available\n") == []


LAB = """NodeName={name} CPUTot=16 RealMemory=64000 Gres=gpu:{kind}:4 State=IDLE
"""


def made(parts, kinds=("a", "a", "b", "b")):
    """Four nodes n1 ... n4 of these types, and partitions given as {name: (nodes, tier)}."""
    told = "".join(LAB.format(name=f"n{at}", kind=kind) for at, kind in enumerate(kinds, 1))
    listed = "".join(
        f"PartitionName={name}\n   Nodes={inside}\n   PriorityJobFactor=1 PriorityTier={tier}\n\n"
        for name, (inside, tier) in parts.items()
    )
    return machines_of(nodes(told), partitions(listed), name="made")


def test_partitions_on_the_same_nodes_are_one_pool_and_that_is_reported():
    found = made({"short": ("n[1-4]", 1), "long": ("n[1-4]", 1)})
    assert found.cluster.vcs == ()
    assert found.vc == {"short": "", "long": ""}
    assert found.remarks == ("partitions short, long share nodes: the cluster is not divided",)


def test_partitions_that_overlap_share_a_virtual_cluster_and_others_keep_theirs():
    found = made({"a": ("n1", 1), "both": ("n[1-2]", 1), "own": ("n[3-4]", 1)})
    assert found.vc == {"a": "a+both", "both": "a+both", "own": "own"}
    assert [(g.count, g.vc) for g in found.cluster.groups] == [(2, "a+both"), (2, "own")]
    assert any("a has 1: here its jobs may use all" in remark for remark in found.remarks)


def test_nodes_are_numbered_rack_by_rack():
    told = "".join(LAB.format(name=f"n{at}", kind=kind) for at, kind in enumerate("abaa", 1))
    listed = [Rack("left", ("n4", "n2")), Rack("right", ("n1", "n3"))]
    found = machines_of(nodes(told), racks=listed)
    assert found.names == ("n4", "n1", "n3", "n2")
    assert [(group.gpu_type, group.racks) for group in found.cluster.groups] == [("a", (1, 2)), ("b", (1,))]
    assert [found.node_of(gpu) for gpu in (0, 3, 4, 11, 12)] == ["n4", "n4", "n1", "n3", "n2"]
    assert found.remarks == ("1 racks hold nodes of several kinds: each kind counts as a rack of its own",)


def test_a_partition_of_one_gpu_type_keeps_its_jobs_to_that_type():
    found = made({"new": ("n[1-2]", 1), "all": ("n[1-4]", 1), "half": ("n[2-3]", 1)})
    assert found.only_type == {"new": "a"}


def test_tiers_of_partitions_that_share_nodes_outweigh_all_else():
    found = read_site(
        ImportFiles(*(FIXTURES / "22.05" / f for f in ("sacct.json", "nodes.txt", "partitions.txt", "config.txt")))
    )
    assert found.site.ranks == 2001
    assert "partition=0,qos=2001" in found.site.policy
    assert table(found.trace, "qos")["12"] == (1,)
    assert table(found.trace, "qos")["2"] == (0,)


def test_the_import_of_a_real_slurm_can_be_simulated():
    found = read_site(sources("22.05", jobs="sacct.json"))
    result = simulation.run(set_up(found.trace, found.cluster), found.site.policy)
    assert result.summary["finished"] == len(found.trace) == 17


# ------------------------------------------------------------------------------------------- settings


def test_settings_may_come_from_slurm_conf():
    text = "# PriorityWeightAge=9\nPriorityType=priority/multifactor  # as always\nPriorityWeightAge=500\n"
    site = sites.of_config(
        settings(text + "PriorityMaxAge=1-0\nSchedulerType=sched/builtin\nPriorityWeightTRES=CPU=10,GRES/gpu=300\n")
    )
    assert site.policy == "multifactor:age=500,fairshare=0,size=0,gpu=300,partition=0,qos=0,max_age=86400,period=300"
    assert sites.of_config(settings("PriorityType=priority/basic\n")).policy == "fifo:backfill=conservative,depth=50"


def test_what_has_no_counterpart_is_reported():
    text = "PriorityWeightQOS=5\nPriorityWeightFairShare=7\nPriorityFlags=MAX_TRES\n"
    text += "AccountingStorageEnforce=associations\nPriorityUsageResetPeriod=WEEKLY\n"
    told = ["PriorityWeightQOS:", "fair", "AccountingStorageEnforce", "PriorityUsageResetPeriod=WEEKLY:",
            "PriorityFlags=MAX_TRES"]  # fmt: skip
    site = sites.of_config(settings(text))
    assert [remark.partition(":")[2].split()[0] for remark in site.remarks] == told


@pytest.mark.parametrize(
    ("billing", "expected"),
    [
        ("", "bill_gpu=0,bill_cpu=1"),
        ("CPU=1.0,Mem=0.25G,GRES/gpu=16.0", "bill_gpu=16,bill_cpu=1,bill_mem=0.25"),
        ("Mem=0.001,GRES/gpu=1", "bill_mem=1.024"),  # without a unit it is for a MiB
        ("gres/gpu:a100=4,cpu=2", "bill_gpu=0,bill_cpu=2"),
    ],
)
def test_what_counts_as_usage(billing, expected):
    site = sites.Site(priority=sites.PriorityForm(fairshare=7, billing=billing, flags="NO_FAIR_TREE", period_s=60))
    assert f"decay=604800,{expected},period=60," in site.policy
    registry.policy(site.policy)


@pytest.mark.parametrize(("second", "told"), [("CPU=1,GRES/gpu=8", False), ("CPU=2", True)])
def test_partitions_that_bill_differently_are_reported(second, told):
    parts = partitions(
        "PartitionName=a\n   TRESBillingWeights=CPU=1,GRES/gpu=8\nPartitionName=b\n   TRESBillingWeights=" + second
    )
    site = sites.Site(priority=sites.PriorityForm(fairshare=1, billing=parts[0].billing))
    assert [remark.partition(";")[2] for remark in importing._billed(site, parts)] == [
        " CPU=1,GRES/gpu=8 counts in all"
    ] * told


def test_a_weight_that_is_no_number_is_refused():
    with pytest.raises(LiveError, match="PriorityWeightAge must be a number, got 'high'"):
        sites.of_config(settings("PriorityWeightAge=high\n"))


def test_a_site_reads_back_as_it_was_written(tmp_path):
    site = read_site(sources("23.11")).site
    (tmp_path / "site.toml").write_text(sites.to_toml(site))
    assert sites.read(tmp_path / "site.toml") == site


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7-00:00:00", 604800), ("01:30:00", 5400), ("1-0", 86400), ("90", 5400), ("1:30", 90), ("30 sec", 30),
     ("UNLIMITED", None), ("NONE", None), ("(null)", None)],
)  # fmt: skip
def test_lengths_of_time(text, expected):
    assert seconds(text) == expected


def test_values_may_hold_blanks_and_later_text_can_not_pretend():
    (found,) = records("NodeName=n1 OS=Linux 5 #1\n   Gres=gpu:2\n   Reason=x Gres=gpu:99\n", "NodeName")
    assert (found["OS"], found["Gres"]) == ("Linux 5 #1", "gpu:2")


# ------------------------------------------------------------------------------------------- the command


def shunter(*arguments):
    return CliRunner().invoke(app, ["slurm", *map(str, arguments)], prog_name="shunter")


def files(release):
    folder = FIXTURES / release
    options = (
        ("--jobs", "sacct.txt"),
        ("--nodes", "nodes.txt"),
        ("--partitions", "partitions.txt"),
        ("--config", "config.txt"),
    )
    return [text for option, name in options for text in (option, folder / name)]


def test_import_writes_three_files_that_read_back(tmp_path):
    done = shunter("import", tmp_path / "site", *files("24.05"), "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["jobs"], record["cluster"]) == (8, {"name": "site", "nodes": 6, "gpus": 20})
    assert "note: 1 node without GPUs is left out" in done.stderr
    trace, cluster = read(tmp_path / "site" / "jobs.parquet"), clusters.load(str(tmp_path / "site" / "cluster.toml"))
    assert np.array_equal(trace.gpus, read_site(sources("24.05")).trace.gpus)
    assert cluster == read_site(sources("24.05")).cluster
    assert sites.read(tmp_path / "site" / "site.toml").policy == record["policy"]


def test_import_never_writes_over_what_is_there(tmp_path):
    (tmp_path / "jobs.parquet").write_text("mine")
    done = shunter("import", tmp_path, *files("24.05"))
    assert done.exit_code == 2
    assert "jobs.parquet already" in done.stderr
    assert shunter("import", tmp_path, *files("24.05"), "--force").exit_code == 0


def test_import_says_which_file_is_wrong(tmp_path):
    (tmp_path / "n.txt").write_text("nothing here\n")
    done = shunter(
        "import", tmp_path / "site", "--jobs", FIXTURES / "24.05" / "sacct.txt", "--nodes", tmp_path / "n.txt"
    )
    assert done.exit_code == 2
    assert "n.txt: there is no node in it; write it with: scontrol show node" in " ".join(done.stderr.split())
    assert not (tmp_path / "site").exists()
    done = shunter("import", tmp_path / "site", "--jobs", FIXTURES / "24.05" / "sacct.txt")
    assert "give --nodes (scontrol show node)" in " ".join(done.stderr.split())
