"""What is proposed is what would come of it: a diff, applied, gives the policy that was simulated."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from shunter import registry
from shunter.advice.candidates import PREEMPTIVE, candidates, lines, site_of
from shunter.advice.effects import effects, groups, losers
from shunter.advice.slurm_conf import changed, diff, of_settings
from shunter.model import Trace
from shunter.policies.express import Express
from shunter.slurm.scontrol_output import settings
from shunter.slurm.site import PriorityForm, SchedulerForm, Site, of_config

SITES = {
    "basic": Site(priority=PriorityForm(type="priority/basic")),
    "builtin": Site(priority=PriorityForm(age=1000.0), scheduler=SchedulerForm(type="sched/builtin")),
    "usual": Site(
        priority=PriorityForm(age=1000.0, fairshare=10000.0, size=200.0, partition=50.0, max_age_s=86400.0),
        scheduler=SchedulerForm(parameters="bf_continue,bf_max_job_test=50"),
    ),
    "by TRES": Site(priority=PriorityForm(age=10.0, tres="CPU=7,GRES/gpu=300", half_life_s=3600.0)),
}


@pytest.mark.parametrize("site", SITES.values(), ids=SITES)
def test_the_changed_file_means_the_policy_that_was_simulated(site):
    before = of_settings(lines(site.priority, site.scheduler))
    assert of_config(settings(before)).policy == site.policy
    found = [one for one in candidates(registry.policy(site.policy), site) if one.by_slurm]
    assert len(found) >= 5
    for candidate in found:
        assert of_config(settings(changed(before, candidate.changes))).policy == candidate.policy


def test_every_candidate_is_a_policy_and_none_comes_twice():
    found = candidates(registry.policy("fifo:backfill=easy"), SITES["usual"], preemption=True, more=("sjf", "las"))
    texts = [registry.text(registry.policy(one.policy)) for one in found]
    assert len(set(texts)) == len(texts)
    assert registry.text(registry.policy("fifo:backfill=easy")) not in texts
    assert "sjf" in texts


def test_policies_that_stop_running_jobs_come_only_if_wanted():
    def names(preemption):
        return {one.policy.partition(":")[0] for one in candidates(registry.policy("fifo"), SITES["basic"], preemption)}

    assert not names(False) & set(PREEMPTIVE)
    assert set(PREEMPTIVE) <= names(True)


@pytest.mark.parametrize("site", SITES.values(), ids=SITES)
def test_our_best_comes_first(site):
    base, best = registry.policy(site.policy), Express(estimate="rolling")
    assert candidates(base, site)[0].named.policy == best.without_stops
    assert [one.named.policy for one in candidates(base, site, preemption=True)[:2]] == [best, best.without_stops]


def test_ranks_of_partitions_still_outweigh_larger_weights():
    site = SITES["usual"].model_copy(update={"ranks": 11251.0})
    for candidate in candidates(registry.policy(site.policy), site):
        if candidate.by_slurm:
            policy = registry.policy(candidate.policy)
            assert policy.qos >= policy.age + policy.fairshare + policy.size - 1
            partition = float(candidate.changes.get("PriorityWeightPartition", 50))
            assert partition / policy.qos == pytest.approx(50 / 11251)


@pytest.mark.parametrize("base", ["fifo:backfill=easy", "fifo", "multifactor:age=5,size=3,fairshare=0,backfill=easy"])
def test_a_policy_that_slurm_has_is_found_in_its_settings(base):
    assert registry.policy(site_of(registry.policy(base)).policy) == registry.policy(base)


# ------------------------------------------------------------------------------------------- slurm.conf


OWN = """# our site
ClusterName=own
priorityweightage = 500   # since 2021
PriorityType=priority/multifactor
NodeName=n[1-4] Gres=gpu:4
"""


def test_the_sites_own_file_keeps_its_words():
    new = changed(OWN, {"PriorityWeightAge": "900", "PriorityFavorSmall": "YES"})
    assert new.splitlines() == [
        "# our site",
        "ClusterName=own",
        "priorityweightage = 900   # since 2021",
        "PriorityType=priority/multifactor",
        "PriorityFavorSmall=YES",
        "NodeName=n[1-4] Gres=gpu:4",
    ]
    assert changed(new, {"PriorityWeightAge": "900", "PriorityFavorSmall": "YES"}) == new


def test_the_diff_is_one_that_patch_takes(tmp_path):
    if shutil.which("patch") is None:
        pytest.skip("no patch")
    new = changed(OWN, {"PriorityWeightAge": "900", "SchedulerType": "sched/backfill"})
    (tmp_path / "slurm.conf").write_text(OWN)
    subprocess.run(
        ["patch", "slurm.conf"], input=diff(OWN, new).encode(), cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "slurm.conf").read_text() == new


# ------------------------------------------------------------------------------------------- who gains, who loses


def jobs(**more):
    return Trace.of(
        "six",
        list("abcdef"),
        submit=np.arange(6),
        duration=[10_000] * 6,
        gpus=[1000, 1000, 2000, 8000, 1000, 1000],
        **more,
    )


def test_gains_and_losses_are_reported_by_size_and_by_account():
    trace = jobs(account=[0, 0, 1, 1, 1, 1], accounts=("x", "y"), user=[0, 0, 1, 1, 2, 2], users=("u", "v", "w"))
    before, after = np.array([100.0, 100, 100, 100, 100, 100]), np.array([0.0, 0, 100, 1000, 100, 100])
    found = effects(trace, before, after)
    assert found["wait_s"]["mean"] == 1300 / 6
    assert found["mean_change"] == pytest.approx(7 / 6)
    assert found["user_wait_s"] == pytest.approx((0 + 550 + 100) / 3)
    assert [(row["name"], row["jobs"], row["change"]) for row in found["by_size"]] == [
        ("1", 4, -0.5), ("2-4", 1, 0), ("5-8", 1, 9),
    ]  # fmt: skip
    assert [(row["name"], row["change"]) for row in found["by_group"]] == [("account y", 2.25), ("account x", -1)]
    assert found["losers"]["jobs"] == pytest.approx(1 / 6)
    assert found["losers"]["users"] == pytest.approx(1 / 3)
    assert found["losers"]["worst_user"] == {"name": "v", "jobs": 2, "mean_s": 450}
    assert found["slowdown"] == pytest.approx((1 + 1 + 11 + 101 + 11 + 11) / 6)


def test_without_accounts_heavy_and_light_users_are_reported():
    trace = jobs(user=[0, 0, 0, 1, 2, 2], users=("u", "v", "w"))
    assert [(name, int(mine.sum())) for name, mine in groups(trace)] == [
        ("the 1 heaviest users (half of GPU time)", 1), ("all other users", 5),
    ]  # fmt: skip
    assert losers(jobs(), np.zeros(6), np.zeros(6))["worst_user"]["name"] == "no user named"
