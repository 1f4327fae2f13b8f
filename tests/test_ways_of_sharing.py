"""How jobs share a GPU: as the cluster says or as asked for, recorded, and with other speeds."""

from __future__ import annotations

import pytest

from shunter import simulation
from shunter.cluster import SHARING, Cluster, NodeGroup
from shunter.errors import ClusterError
from shunter.report.html.provenance import command
from shunter.setup import set_up
from shunter.sharing.profiles import measured

JOBS = "synthetic:jobs=60,seed=2,gpus=8,load=2"
POLICY = "gandiva:packing=true"


def test_the_cluster_says_it_and_an_option_wins():
    cluster = Cluster("mine", (NodeGroup(1, 8),), sharing="mps")
    assert set_up(JOBS, cluster).cluster.sharing == "mps"
    assert set_up(JOBS, cluster, sharing="time-slice").cluster.sharing == "time-slice"
    assert set_up(JOBS, "1x8").cluster.sharing == "time-slice"
    with pytest.raises(ClusterError, match="sharing must be one of time-slice, mps, got 'mpi'"):
        set_up(JOBS, "1x8", sharing="mpi")


def test_runs_go_by_it_and_record_it():
    results = {way: simulation.run(set_up(JOBS, "1x8", sharing=way), POLICY) for way in SHARING}
    for way, found in results.items():
        assert found.experiment.sharing == way
        assert f"--sharing {way}" in command([found.kept], [found.summary])
        assert simulation.rerun(found.experiment).digest == found.digest
    assert results["mps"].digest != results["time-slice"].digest
    assert results["time-slice"].digest == simulation.run(set_up(JOBS, "1x8"), POLICY).digest


def test_mps_is_seldom_slower():
    slower = measured("mps").speeds() < measured().speeds() - 0.1
    assert slower.mean() < 0.03
