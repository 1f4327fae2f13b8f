"""Learned orders: neutral weights give the known order, kernels equal plain formulas, and bad files are refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shunter
from shunter import drive as loop
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import ModelError, PolicyError
from shunter.learning.engine import LearnedOrder
from shunter.live.backend import LiveBackend, Rhythm
from shunter.model import GPU, Trace
from shunter.policies.scored import features as f
from shunter.policies.scored import models as m
from shunter.policies.scored.evaluating import fill_lane, score, score_lanes
from shunter.policies.scored.features import FEATURES, NAMES, OF_POOL
from shunter.policies.scored.lanes import LANES
from shunter.predictors.trees import Builder, evaluate
from shunter.scheduling.queue.keys import made_up
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.policy import queue_of
from shunter.scheduling.queue.pools import ways_of
from shunter.setup import set_up
from shunter.sim.engine import Simulator
from shunter.simulation import simulate, training_remarks
from shunter.testing.cases import CASES
from shunter.testing.conformance import PolicyConformance
from shunter.testing.live import snapshot_of

ALL_INPUTS = [m.Input(feature=name, log=name in ("area", "estimate", "wait"), scale=0.1, high=50.0) for name in NAMES]


def network(inputs=ALL_INPUTS, widths=(32, 16, 8, 1), seed=0):
    """A network with random weights."""
    rng, layers, width = np.random.default_rng(seed), [], len(inputs)
    for wide in widths:
        layers.append(
            m.LayerWeights(weights=rng.normal(0, 0.5, (width, wide)).tolist(), bias=rng.normal(0, 0.5, wide).tolist())
        )
        width = wide
    return m.ScoreModel(name="n", inputs=list(inputs), model=m.NetworkForm(layers=layers))


def trees(inputs=ALL_INPUTS, count=5, seed=0):
    """Random trees of depth two."""
    rng, made = np.random.default_rng(seed), Builder()
    for _ in range(count):
        leaves = [made.add(float(rng.normal())) for _ in range(4)]
        halves = []
        for pair in (leaves[:2], leaves[2:]):
            node = made.add(0.0, int(rng.integers(len(inputs))), float(rng.uniform(0, 5)))
            halves.append(made.join(node, *pair, pair[0]))
        root = made.add(0.0, int(rng.integers(len(inputs))), float(rng.uniform(0, 5)))
        made.roots.append(made.join(root, *halves, halves[1]))
    return made.grown(0.25)


def forest(seed=0):
    return m.ScoreModel(name="t", inputs=ALL_INPUTS, model=m.forest_of(trees(seed=seed)))


def linear(seed=0):
    weights = np.random.default_rng(seed).normal(size=len(NAMES)).tolist()
    return m.ScoreModel(name="l", inputs=ALL_INPUTS, model=m.LinearForm(bias=0.5, weights=weights))


@pytest.fixture
def saved(tmp_path):
    """Writes a model and names the policy that uses it."""

    def save(model, **settings):
        m.save(model, tmp_path / "order.json")
        return "scored:" + ",".join(f"{k}={v}" for k, v in {"model": tmp_path / "order.json", **settings}.items())

    return save


# ------------------------------------------------------------------------------------------- the neutral model


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neutral_weights_give_the_schedule_of_saf(case):
    runs = [case.simulator() for _ in range(2)]
    for run, text in zip(runs, ("saf:backfill=easy", "scored:model=saf"), strict=True):
        run.run(shunter.policy(text))
    assert runs[0].digest == runs[1].digest


def test_features_without_a_weight_change_nothing(saved):
    model = m.linear_model("mine", ["free", "area", "wait"], [0.0, 1.0, 0.0])
    assert not model.sees_pool
    assert not model.ages
    jobs = "synthetic:jobs=300,gpus=16,load=1.3"
    assert simulate(jobs, "2x8", saved(model)).digest == simulate(jobs, "2x8", "saf:backfill=easy").digest


def test_looking_at_pools_alone_changes_no_schedule(saved):
    """With a weight on a feature that is the same for all jobs, keys are made at every decision, and order the same."""
    model = m.linear_model("mine", ["area", "free"], [1.0, 1e-3])
    assert model.sees_pool
    jobs = "synthetic:jobs=400,gpus=16,load=1.3"
    for settings_ in ({}, {"backfill": "none"}, {"backfill": "conservative"}):
        text = "saf:" + ",".join(f"{k}={v}" for k, v in ({"backfill": "easy"} | settings_).items())
        assert simulate(jobs, "2x8", saved(model, **settings_)).digest == simulate(jobs, "2x8", text).digest


def test_an_order_that_ages_is_that_of_a_key_that_does(saved):
    """The longest wait first is first in, first out."""
    model = m.linear_model("mine", ["wait"], [-1.0])
    jobs = "synthetic:jobs=300,gpus=16,load=1.3"
    assert simulate(jobs, "2x8", saved(model)).digest == simulate(jobs, "2x8", "fifo:backfill=easy,bound=0.9").digest


@pytest.mark.parametrize(("settings_", "same"), [("", ",bound=0.9"), (",bound=0", "")])
def test_the_order_of_submission_is_fifo_with_the_same_bound(settings_, same):
    jobs = "synthetic:jobs=300,gpus=16,load=1.3"
    found, known = (
        simulate(jobs, "2x8", text) for text in (f"scored:model=fifo{settings_}", f"fifo:backfill=easy{same}")
    )
    assert found.digest == known.digest


# ------------------------------------------------------------------------------------------- values


def obvious_inputs(job, inputs):
    """The features of a job by their definitions, scaled and within bounds."""
    gpus = max(job.pool_gpus, 1)
    values = {
        **{name: getattr(job, name) for name in NAMES if hasattr(job, name)},
        "area": job.gpus * job.estimate,
        "urgency": job.wait / max(job.estimate, 10),
        "fragmentation": job.partly / max(job.pool_nodes, 1),
        "pressure": job.gpus / max(job.free, 1e-5) / gpus,
        "availability": (job.free - job.demand + job.pool_gpus) / (2 * gpus),
    }
    row = []
    for one in inputs:
        value = math.log1p(max(values[one.feature], 0)) if one.log else values[one.feature]
        low, high = (-math.inf if one.low is None else one.low), (math.inf if one.high is None else one.high)
        row.append(min(max(value * one.scale, low), high))
    return np.array(row)


def obvious_value(job, model):
    row = obvious_inputs(job, model.inputs)
    if isinstance(model.model, m.LinearForm):
        return model.model.bias + row @ np.array(model.model.weights)
    for at, layer in enumerate(model.model.layers):
        row = row @ np.array(layer.weights) + np.array(layer.bias)
        row = np.maximum(row, 0) if at < len(model.model.layers) - 1 else row
    return row[0]


@pytest.mark.parametrize("make", [linear, lambda seed: network(seed=seed)], ids=["linear", "network"])
@given(seed=st.integers(0, 10_000), at=st.integers(0, 255))
@settings(max_examples=40, deadline=None)
def test_a_compiled_value_is_that_of_the_formula(make, seed, at):
    model, job = make(seed=seed), made_up()[at]
    assert score(job, model.arrays()) == pytest.approx(obvious_value(job, model), rel=1e-9, abs=1e-9)


@given(
    seed=st.integers(0, 10_000),
    widths=st.lists(st.integers(1, 13), max_size=3),
    rows=st.lists(st.integers(0, 255), min_size=1, max_size=LANES),
)
@settings(max_examples=40, deadline=None)
def test_a_value_in_a_lane_is_that_of_one_job_to_the_last_bit(seed, widths, rows):
    model = network(widths=(*widths, 1), seed=seed).arrays()
    alone = [score(made_up()[at], model) for at in rows]
    for lane, at in enumerate(rows):
        fill_lane(made_up()[at], model, lane)
    begin = score_lanes(model)
    assert model[begin : begin + len(rows)].tobytes() == np.array(alone).tobytes()


class OneByOne(LearnedOrder):
    """The same order with keys for one job at a time."""

    look = Ordering.look


@pytest.mark.parametrize("visible", [0, 5])
def test_several_jobs_at_a_time_give_the_schedule_of_one_by_one(visible):
    model = network([one for one in ALL_INPUTS if one.feature in ("wait", "area", "free", "fits")])
    setup = set_up("synthetic:jobs=300,gpus=16,load=1.5", "2x8")
    digests = []
    for made in (LearnedOrder, OneByOne):
        simulator = Simulator(setup.trace, setup.cluster)
        simulator.run(made(given=model, visible=visible))
        digests.append(simulator.digest)
    assert digests[0] == digests[1]


@given(seed=st.integers(0, 10_000), at=st.integers(0, 255))
@settings(max_examples=40, deadline=None)
def test_trees_are_those_of_the_predictors(seed, at):
    job = made_up()[at]
    assert score(job, forest(seed).arrays()) == evaluate(trees(seed=seed), obvious_inputs(job, ALL_INPUTS))


def test_each_feature_has_the_number_of_its_place():
    assert [getattr(f, name.upper()) for name in NAMES] == list(range(len(NAMES)))


def obvious_pool(view, job):
    """What is free, how it lies and who waits, where a job may go."""
    jobs, nodes = view.world.jobs, view.world.nodes
    mine = [
        node
        for node in range(nodes.shape[1])
        if nodes[w.NODE_STATE, node] == w.UP
        and (jobs[w.VC, job] < 0 or nodes[w.NODE_VC, node] in (w.OPEN, jobs[w.VC, job]))
        and (jobs[w.TYPE, job] < 0 or view.world.admits[jobs[w.TYPE, job], node] == 1)
    ]
    free, total = nodes[w.FREE, mine], nodes[w.TOTAL, mine]
    same = [k for k in view.pending if tuple(jobs[[w.VC, w.TYPE], k]) == tuple(jobs[[w.VC, w.TYPE], job])]
    demand = (jobs[w.GPUS, same] * jobs[w.SHARE, same] / 1000).sum()
    partly = ((free > 0) & (free < total)).sum()
    return len(mine), total.sum(), free.sum(), free.max(initial=0), partly, len(same), demand


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pools_are_as_they_are_counted(case, saved):
    policy, simulator = shunter.policy(saved(network())), case.simulator()
    simulator.prepare(policy.needs)
    memory, looks = policy.start(simulator.cluster), 0
    for view in simulator:
        plan = policy.decide(view, memory)
        while plan.actions:
            queue = queue_of(memory.form)
            for job in view.pending:
                row = queue.pools.of_class[queue.class_of[job]]
                seen = [getattr(queue.pools, name)[row] for name in
                        ("nodes", "gpus", "free", "largest", "partly", "waiting", "demand")]  # fmt: skip
                np.testing.assert_allclose(seen, obvious_pool(view, job))
                looks += 1
            starts = [action for action in plan.actions if isinstance(action, shunter.Start)]
            assert all(queue.pools.fits[queue.class_of[start.job]] == 1 for start in starts)
            assert not simulator.apply(plan)
            plan = policy.decide(view, memory)
    assert looks > 100


# ------------------------------------------------------------------------------------------- as any policy


LEARNED = ("linear", "network", "trees", "conservative", "skip")


class TestLearnedOrders(PolicyConformance):
    """Each keeps the rules in all cases, and takes over and is cut out in a third of them; together they meet all."""

    @staticmethod
    def is_slow(test, policy, case):
        return test != "test_keeps_the_rules" and (LEARNED.index(policy) + CASES.index(case)) % 3 != 0

    @pytest.fixture(params=LEARNED)
    def policy(self, request, saved):
        made = {"linear": linear, "network": network, "trees": forest}.get(request.param, network)()
        more = {"conservative": {"backfill": "conservative"}, "skip": {"backfill": "none", "blocking": "skip"}}
        return saved(made, **more.get(request.param, {}))


@dataclass(frozen=True)
class Snug(shunter.Ordering):
    """Jobs that fit now first, those that leave least behind."""

    sees_pool = True

    @staticmethod
    def key(job, p):
        return job.free - job.gpus if job.fits == 1.0 else 1e9 + job.submit


@dataclass(frozen=True)
class Blind(shunter.Ordering):
    @staticmethod
    def key(job, p):
        return job.free - job.gpus


def test_any_order_may_see_its_pool():
    jobs = Trace.of("t", list("abc"), submit=[0, 1, 2], duration=[9000] * 3, gpus=np.array([1, 4, 3]) * GPU)
    assert simulate(jobs, "1x4", Snug()).jobs["wait"].to_list() == pytest.approx([0, 9.001, 0])
    with pytest.raises(PolicyError, match="known only with sees_pool = True"):
        simulate(jobs, "1x4", Blind())


def test_it_decides_and_ranks_on_a_live_cluster(saved):
    limit = np.array([30, 60, 60, 10]) * 60_000
    given_ = {"submit": [0, 1, 2, 3], "duration": limit, "limit": limit, "gpus": np.array([2, 3, 1, 1]) * GPU}
    simulator = Simulator(Trace.of("t", list("abcd"), **given_), Cluster("little", (NodeGroup(1, 3),)))
    simulator.run(shunter.policy("fifo"), until=10)

    class Still:
        def snapshot(self):
            return snapshot_of(simulator)

        def nodes(self):
            return self.snapshot().nodes

        def racks(self):
            return []

        def counters(self):
            return "the same"

    first_that_fit = m.linear_model("mine", ["fits", "area"], [-1e9, 1.0])
    backend, chosen = LiveBackend(Still(), rhythm=Rhythm(0.01, 0.01)), shunter.policy(saved(first_that_fit))
    loop.decide(backend, chosen, backend.look(), chosen.start(backend.cluster))
    assert set(backend.wanted().starts) == {"3"}
    assert backend.wanted().ranking[0] == "3"


def test_a_run_records_the_content_of_its_model(saved):
    policy = saved(network())
    setup = set_up("synthetic:jobs=20,gpus=8", "1x8")
    found = shunter.simulation.run(setup, policy).experiment.data
    assert list(found) == [policy.removeprefix("scored:model=")]
    saved(network(seed=1))
    assert shunter.simulation.run(setup, policy).experiment.data != found


# ------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("make", [linear, network, forest])
def test_what_is_written_is_read_again(make, tmp_path):
    model = make()
    m.save(model, tmp_path / "m")
    assert m.load(tmp_path / "m") == model
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_model_of_before_has_no_span_and_warns_by_the_name_alone(tmp_path):
    m.save(linear(), tmp_path / "m")
    rewritten(tmp_path / "m", put("training", value={"trace": "jobs", "cluster": "1x8"}))
    setup = set_up(Trace.of("jobs", ["a"], submit=[0], duration=[5000], gpus=[GPU]), "1x8")
    (said,) = training_remarks(shunter.policy(f"scored:model={tmp_path / 'm'}"), setup)
    assert "doesn't say on which jobs" in said
    others = set_up(Trace.of("others", ["a"], submit=[0], duration=[5000], gpus=[GPU]), "1x8")
    assert training_remarks(shunter.policy(f"scored:model={tmp_path / 'm'}"), others) == []
    assert training_remarks(shunter.policy("scored:model=saf"), setup) == []


def rewritten(path, change, checksum=True):
    """The file with other content, and a checksum that is right."""
    content = json.loads(path.read_text())
    content.pop("checksum")
    change(content)
    path.write_text(json.dumps(content | ({"checksum": m._checksum(content)} if checksum else {})))


def put(*path, value):
    def change(content):
        place = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("make", "change", "says"),
    [
        (linear, put("format", value=9), "format 1, got format 9"),
        (linear, put("inputs", 0, "feature", value="fre"), r"inputs\.0\.feature.*did you mean 'free'"),
        (linear, put("inputs", 0, "low", value=99.0), r"inputs\.0: low 99 is above high 50"),
        (linear, put("model", "weights", value=[1.0]), r"model\.weights: must be 20, as the inputs, got 1"),
        (linear, put("model", "bias", value="1"), "valid number"),
        (linear, put("model", "weights", 0, value=1e300), "less than or equal"),
        (linear, put("model", "kind", value="pickle"), "kind"),
        (linear, put("more", value=1), "more: Extra inputs are not permitted"),
        (linear, put("inputs", value=[]), "inputs"),
        (network, put("model", "layers", 0, "bias", value=[0.0]), r"layers\.0\.weights: must be 20 rows of 1 numbers"),
        (network, put("model", "layers", 1, "weights", value=[[1.0]]), r"layers\.1\.weights: must be 32 rows"),
        (network, lambda content: content["model"]["layers"].pop(), "the last must have one output, got 8"),
        (forest, put("model", "nodes", 6, value=[99, 0, 0, 0]), "leads nowhere"),
        (forest, put("model", "nodes", 6, value=[0, 2**62, 0, 0]), "leads nowhere"),
        (forest, put("model", "nodes", 6, value=[0, 6, 6, 6]), "cycle"),
        (forest, put("model", "roots", 0, value=10**6), "no root"),
        (forest, put("model", "threshold", value=[]), "different lengths"),
    ],
)
def test_a_hostile_file_is_refused_with_its_field(make, change, says, tmp_path):
    m.save(make(), tmp_path / "m")
    rewritten(tmp_path / "m", change)
    with pytest.raises(ModelError, match=says) as error:
        shunter.policy(f"scored:model={tmp_path / 'm'}")
    assert str(error.value).startswith(str(tmp_path / "m"))
    assert str(error.value).endswith("make it again with 'shunter learn'")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a model, or only a part of one"),
        (b"{", "is not a model, or only a part of one"),
        (b"[" * 100_000, "is not a model"),
        (b"[1]", "must be a JSON table"),
        (b"\xff\xfe", "is not a model"),
        (b'{"format": 1}', "changed or damaged"),
        (b"\x80\x04K\x01.", "is not a model"),
    ],
)
def test_what_is_no_model_is_refused(content, says, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelError, match=says):
        shunter.policy(f"scored:model={tmp_path / 'm'}")


def test_an_edited_file_is_refused(tmp_path):
    m.save(linear(), tmp_path / "m")
    (tmp_path / "m").write_text((tmp_path / "m").read_text().replace('"bias": 0.5', '"bias": 0.6'))
    with pytest.raises(ModelError, match="changed or damaged"):
        m.load(tmp_path / "m")
    with pytest.raises(ModelError, match="there is no such file; name a file that 'shunter learn' wrote"):
        shunter.policy("scored:model=nowhere.json")


def test_every_feature_of_a_pool_is_known_as_one():
    assert {"free", "fits", "demand", "pressure"} <= OF_POOL
    assert set(FEATURES) - OF_POOL == {"gpus", "estimate", "area", "size", "submit", "wait", "urgency", "skipped"}


def test_an_input_may_be_another_one_in_some_states():
    """RLTune's feature sampling: the size of a job where nodes are fragmented, else its urgency."""
    other = m.Input(feature="area", log=True, scale=0.5, high=3.0)
    sampled = m.SampledInput(feature="urgency", high=2.0, by="fragmentation", least=0.5, other=other)
    model = m.ScoreModel(name="s", inputs=[sampled], model=m.LinearForm(weights=[1.0]))
    assert model.features == {"urgency", "fragmentation", "area"}
    assert model.sees_pool
    arrays, seen = model.arrays(), set()
    for job in made_up():
        fragmented = job.partly / job.pool_nodes >= 0.5
        size = min(0.5 * math.log1p(job.gpus * job.estimate), 3.0)
        assert score(job, arrays) == pytest.approx(size if fragmented else min(job.wait / max(job.estimate, 10), 2.0))
        seen.add(fragmented)
    assert seen == {True, False}


def test_a_sampled_input_goes_through_a_file(tmp_path):
    other = m.Input(feature="ways", scale=1 / 3)
    sampled = m.SampledInput(feature="fragmentation", by="choice", least=1.0, other=other)
    model = m.ScoreModel(name="s", inputs=[sampled], model=m.LinearForm(weights=[1.0]))
    m.save(model, tmp_path / "m.json")
    assert m.load(tmp_path / "m.json") == model
    wrong = model.model_copy(update={"inputs": [sampled.model_copy(update={"by": "choises"})]})
    m.save(wrong, tmp_path / "w.json")
    with pytest.raises(ModelError, match="did you mean 'choice'"):
        m.load(tmp_path / "w.json")


def test_the_inspector_that_takes_every_job_changes_nothing():
    trace = "synthetic:jobs=200,gpus=16,load=1.5"
    for base in ("saf", "saf:backfill=easy", "wfp3:backfill=easy;placement=tight"):
        plain = simulate(trace, "2x8", base.replace(";", ","))
        assert simulate(trace, "2x8", f"inspected:policy={base}").digest == plain.digest


def test_models_that_inspect_and_models_that_order_are_told_apart(tmp_path):
    m.save(m.built_in("take"), tmp_path / "i.json")
    with pytest.raises(PolicyError, match="use the policy inspected:model="):
        shunter.policy(f"scored:model={tmp_path / 'i.json'}")
    m.save(m.built_in("saf"), tmp_path / "o.json")
    with pytest.raises(PolicyError, match="gives an order, so it inspects none; use scored:model="):
        shunter.policy(f"inspected:model={tmp_path / 'o.json'}")
    reads = m.ScoreModel(name="r", inputs=[m.Input(feature="area")], model=m.LinearForm(weights=[1.0]), asks="skip")
    m.save(reads, tmp_path / "r.json")
    with pytest.raises(PolicyError, match="this order makes none; add backfill=easy"):
        shunter.policy(f"inspected:policy=fifo,model={tmp_path / 'r.json'}")
    with pytest.raises(PolicyError, match="needs an order that stops no job"):
        shunter.policy("inspected:policy=las")


def test_one_job_in_view_is_the_order_of_submission():
    trace = "synthetic:jobs=200,gpus=16,load=1.5"
    one, all_of_them = (simulate(trace, "2x8", f"scored:model={text}") for text in ("saf,visible=1", "fifo"))
    assert one.digest == all_of_them.digest
    some = simulate(trace, "2x8", "scored:model=saf,visible=4")
    assert some.digest not in {one.digest, simulate(trace, "2x8", "saf:backfill=easy").digest}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(1, 12))
def test_ways_are_those_that_a_search_of_all_nodes_finds(free, gpus):
    """Nodes of four GPUs: on the fewest nodes by distinct numbers of free GPUs, and one that fills a used node."""
    partly, idle = np.zeros(4, np.int64), np.zeros(4, np.int64)
    for count in free:
        if count:
            (idle if count == 4 else partly)[count - 1] += 1
    fewest = -(-gpus // 4)
    there = [count for count in free if count]
    patterns = {tuple(sorted(chosen)) for chosen in itertools.combinations(there, fewest) if sum(chosen) >= gpus}
    filled = False
    for at, count in enumerate(there):
        rest = sorted(there[:at] + there[at + 1 :], reverse=True)[:fewest]
        filled = filled or (count < min(4, gpus) and len(rest) == fewest and sum(rest) >= gpus - count)
    assert ways_of(partly, idle, gpus) == min(len(patterns), 2) + filled
