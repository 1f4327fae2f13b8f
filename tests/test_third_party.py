"""Policies from outside the package: by object, by dotted path, by entry point; and their keys are compiled anew."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

import shunter
from shunter import extensions, registry

SOURCE = """
    from dataclasses import dataclass

    from shunter.params import param
    from shunter.policies import Ordering
    {extra}

    @dataclass(frozen=True)
    class Mine(Ordering):
        '''Somebody's own order.'''

        alpha: float = param(1.0, 'does nothing', low=0, high=9)

        @staticmethod
        def key(job, p):
            return {key}
"""
RUN = """
    import shunter, sys
    policy = eval(sys.argv[1], {{'shunter': shunter}}) if {object} else sys.argv[1]
    result = shunter.simulate('synthetic:jobs=200,gpus=16,load=1.3', '2x8', policy)
    print(result.summary['policy'], result.digest)
"""


def write(folder: Path, key: str, extra: str = "") -> None:
    (folder / "mylab.py").write_text(textwrap.dedent(SOURCE).format(key=key, extra=extra))


def python(folder: Path, code: str, *arguments: str) -> str:
    """What a new process prints that has the folder on its path."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def simulate(folder: Path, policy: str) -> list[str]:
    return python(folder, RUN.format(object=False), policy).split()


@pytest.fixture(scope="module")
def digests() -> dict[str, str]:
    return {
        name: shunter.simulate("synthetic:jobs=200,gpus=16,load=1.3", "2x8", name).digest
        for name in ("fifo", "lifo", "smallest")
    }


def test_by_dotted_path(tmp_path, digests):
    write(tmp_path, "job.gpus")
    assert simulate(tmp_path, "mylab.Mine:alpha=2") == ["mylab.Mine:alpha=2", digests["smallest"]]


def test_by_object(tmp_path, digests):
    write(tmp_path, "-job.submit")
    printed = python(tmp_path, RUN.format(object=True), "__import__('mylab').Mine(alpha=3.0)")
    assert printed.split() == ["mylab.Mine:alpha=3", digests["lifo"]]


def test_by_entry_point(tmp_path, digests):
    write(tmp_path, "-job.submit")
    about = tmp_path / "mylab-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mylab\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[shunter.policies]\nmine = mylab:Mine\n")
    assert simulate(tmp_path, "mine")[1] == digests["lifo"]
    assert "mine" in python(tmp_path, "from shunter import registry; print(registry.names())")


def test_a_changed_key_counts_in_the_next_process(tmp_path, digests):
    """Also when the file has the same length and the same time as before."""
    write(tmp_path, "+job.submit")
    assert simulate(tmp_path, "mylab.Mine")[1] == digests["fifo"]
    before = (tmp_path / "mylab.py").stat()
    write(tmp_path, "-job.submit")
    os.utime(tmp_path / "mylab.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert simulate(tmp_path, "mylab.Mine")[1] == digests["lifo"]


def test_a_change_in_what_a_key_uses_counts_too(tmp_path, digests):
    (tmp_path / "weights.py").write_text("SIGN = 1.0\n")
    write(tmp_path, "SIGN * job.submit", "from weights import SIGN")
    assert simulate(tmp_path, "mylab.Mine")[1] == digests["fifo"]
    (tmp_path / "weights.py").write_text("SIGN = -1.0\n")
    assert simulate(tmp_path, "mylab.Mine")[1] == digests["lifo"]


def test_a_class_without_a_file(tmp_path, digests):
    """As typed at a prompt."""
    write(tmp_path, "-job.submit")
    typed = (tmp_path / "mylab.py").read_text()
    code = typed + textwrap.dedent(RUN.format(object=False)).replace("sys.argv[1]\n", "Mine()\n", 1)
    assert python(tmp_path, code).split()[1] == digests["lifo"]


PLACER = """
    def last(usable, total, order, gpus, draw, nodes, counts):
        for node in range(len(usable) - 1, -1, -1):
            if usable[node] >= gpus:
                nodes[0], counts[0] = node, gpus
                return 1
        return 0
"""
PREDICTOR = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np
    from shunter.predictors.fitting import Model, Trained
    from shunter.predictors.trees import Builder


    @dataclass(frozen=True)
    class Constant(Model):
        name: ClassVar[str] = 'constant'

        def trainer(self, early):
            def train(table):
                trees = Builder()
                trees.roots.append(trees.add(float(np.median(table.target))))
                return Trained(trees.grown(0.0))
            return train
"""


def test_a_placement_by_dotted_path_places_jobs(tmp_path: Path) -> None:
    (tmp_path / "mylab.py").write_text(textwrap.dedent(PLACER))
    code = """
        import shunter
        jobs = shunter.Trace.of('t', ['a', 'b'], submit=[0, 0], duration=[1000, 1000], gpus=[4000, 4000])
        for rule in ('first-fit', 'mylab.last'):
            found = shunter.simulate(jobs, '3x8', f'fifo:placement={rule}')
            print(found.jobs['nodes'].to_list(), found.summary['policy'])
    """
    first, second = python(tmp_path, code).splitlines()
    assert first.startswith("[[0], [0]]")
    assert second == "[[2], [2]] fifo:placement=mylab.last"


def test_a_predictor_by_dotted_path_estimates_run_times(tmp_path: Path) -> None:
    (tmp_path / "mylab.py").write_text(textwrap.dedent(PREDICTOR))
    code = """
        import shunter
        jobs = 'synthetic:jobs=2000,gpus=16,load=1.1'
        found = shunter.simulate(jobs, '2x8', 'sjf:estimate=mylab.Constant')
        print(found.summary['estimate'], found.summary['finished'])
        from shunter.predictors.models import model
        print(type(model('mylab.Constant:half_life=3')).__name__)
    """
    assert python(tmp_path, code).splitlines() == ["mylab.Constant 2000", "Constant"]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("fifo:placement=nolab.last", "can't import 'nolab'"),
        ("fifo:placement=shunter.nothing", "is no function"),
        ("fifo:placement=nothing", "must be consolidate"),
    ],
)
def test_a_placement_that_is_not_there_is_refused(policy: str, says: str) -> None:
    with pytest.raises(shunter.InputError, match=says):
        shunter.simulate("synthetic:jobs=5", "2x8", policy)


@pytest.mark.parametrize("name", ["shunter.Trace", "shunter.nothing", "nothing"])
def test_a_model_that_is_none_is_refused(name: str) -> None:
    from shunter.predictors.models import model

    with pytest.raises(shunter.InputError, match="model"):
        model(name)


class Careless:
    """Its decide has a mistake."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster, previous=None):
        return {}

    def decide(self, view, memory):
        return memory["nothing"]  # here


def test_a_mistake_in_decide_is_reported_with_its_own_line() -> None:
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# here"))
    with pytest.raises(shunter.InputError) as caught:
        shunter.simulate("synthetic:jobs=5", "2x8", Careless())
    first, second = str(caught.value).splitlines()
    assert first == "policy Careless: KeyError: 'nothing'"
    assert second == f'  at {__file__}:{line}: return memory["nothing"]  # here'


class Greedy(Careless):
    """Gives a job the same GPUs twice."""

    def decide(self, view, memory):
        return shunter.Plan([shunter.Start(int(view.pending[0]), tuple(range(8)) * 2)])


class Idle(Careless):
    """Never starts a job."""

    def decide(self, view, memory):
        return shunter.Plan()


def test_a_policy_that_can_not_go_on_is_named_with_what_it_did() -> None:
    jobs = shunter.Trace.of("one", ["a"], submit=[0], duration=[60_000], gpus=[1000])
    with pytest.raises(shunter.errors.PolicyError) as caught:
        shunter.simulate("synthetic:jobs=120,gpus=64", "8x8", Greedy())
    assert "policy Greedy: 100 plans refused in a row" in str(caught.value)
    assert "Start(job=0, gpus=(0, 1" in str(caught.value)
    with pytest.raises(shunter.errors.PolicyError, match="policy Idle: it left 1 job waiting although nothing more"):
        shunter.simulate(jobs, "1x8", Idle())


def test_packages_are_looked_through_once(monkeypatch):
    looked = []
    monkeypatch.setattr(extensions, "entry_points", lambda group: looked.append(group) or EntryPoints())
    extensions._installed.cache_clear()
    for _ in range(3):
        registry.policy("saf:placement=spread")
    extensions._installed.cache_clear()
    assert len(looked) == len(set(looked)) > 0
