"""Mistakes in the key of somebody's own order: two lines with the place in their file, before anything is simulated."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

import shunter
from shunter import registry
from shunter.cli.main import app
from shunter.errors import PolicyError
from shunter.scheduling.queue.keys import Flags, _configures, _params, _try, key_pointer, made_up
from shunter.scheduling.queue.policy import Queued

CLASS = """
import math
from dataclasses import dataclass

import numpy as np
import shunter
from numba import njit

{before}
@dataclass(frozen=True)
class Mine(shunter.Ordering):
    alpha: float = 2.0
    {flags}

    @staticmethod
    def key(job, p):
        return {key}

    def key_params(self):
        return {params}
"""
JOBS = "synthetic:jobs=60,gpus=16,load=1.3"


@pytest.fixture
def error(tmp_path, monkeypatch):
    """The message that a key gets, with the line of the file that it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def found(key: str, flags: str = "", params: str = "np.array([self.alpha])", before: str = "") -> tuple[str, str]:
        text = CLASS.format(key=key, flags=flags.replace("; ", "\n    "), params=params, before=before)
        (tmp_path / "users_key.py").write_text(text)
        sys.modules.pop("users_key", None)
        with pytest.raises(PolicyError) as raised:
            shunter.simulate(JOBS, "2x8", "users_key.Mine")
        message, _, place = str(raised.value).partition("\n")
        file, _, rest = place.strip().removeprefix("at ").partition(":")
        number, _, shown = rest.partition(": ")
        assert file == str(tmp_path / "users_key.py")
        assert text.splitlines()[int(number) - 1].strip() == shown
        return message, shown

    return found


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("job.gpu", "job has no field 'gpu'; did you mean 'gpus'? known: attained, begun"),
        ("job.submit * job.duration", "the run time is hidden from policies: job.duration"),
        ("job.gpus * factor", "name 'factor' is not defined"),
        ("'wide' if job.gpus > 1 else 'narrow'", "must return float64 on every path"),
        ("float(len([x for x in p]))", "compiled code can't"),
        ("math.nan", "must be a number, but is NaN for a job with"),
        ("job.attained / job.executed", "is NaN for a job with executed=0, attained=0"),
        ("job.gpus * p[3]", "reads beyond the 1 values of p"),
        ("p[-2]", "reads beyond the 1 values of p"),
        ("-job.wait", "reads job.wait, so it changes while a job waits; set varying = True"),
        ("0.0 if job.wait < 5e6 else 1.0", "reads job.wait"),
        ("job.estimate", "known only with uses_estimate = True"),
        ("job.usage", "only a policy that configures its queue counts"),
    ],
)
def test_a_mistake_is_two_lines_with_the_users_own_place(error, key, says):
    message, shown = error(key)
    assert message.startswith("Mine.key")
    assert says in message
    assert shown == f"return {key}"


def test_a_key_that_rises_is_not_ageing(error):
    assert "only falls" in error("job.gpus + job.wait", "varying = True; ageing = True")[0]


def test_a_mistake_in_a_function_that_the_key_calls_is_shown_there(error):
    message, shown = error("helper(job)", before="@njit\ndef helper(job):\n    return job.gpuss\n")
    assert "did you mean 'gpus'" in message
    assert shown == "return job.gpuss"


def test_parameters_that_are_no_array(error):
    message, shown = error("job.gpus", params="{'alpha': self.alpha}")
    assert message == "Mine.key_params must return an array of numbers, such as np.array([self.alpha])"
    assert shown == "return {'alpha': self.alpha}"


def test_a_key_that_is_nan_for_one_job_only_stops_the_run(tmp_path, monkeypatch):
    """Whichever loop runs it: made-up jobs can't show everything."""
    monkeypatch.syspath_prepend(tmp_path)
    rare = "math.nan if job.submit == 777.0 else job.gpus"
    (tmp_path / "rare_key.py").write_text(CLASS.format(key=rare, flags="", params="np.zeros(0)", before=""))
    jobs = shunter.Trace.of("three", ["a", "b", "c"], submit=[0, 5000, 777_000], duration=[9] * 3, gpus=[1000] * 3)
    for compiled in (True, False):
        simulator = shunter.Simulator(jobs, shunter.Cluster("small", (shunter.cluster.NodeGroup(1, 1),)))
        with pytest.raises(PolicyError, match=r"Mine\.key must be a number, but is NaN for job 2 "):
            simulator.run(registry.policy("rare_key.Mine"), compiled=compiled)


@pytest.mark.parametrize("name", registry.names())
def test_built_in_keys_are_as_declared(name):
    policy = registry.policy(name)
    if not isinstance(policy, Queued) or _configures(policy):
        pytest.skip("has no key, or configures its queue itself")
    _try(type(policy).key, _params(policy).tobytes(), Flags(policy.varying, policy.ageing, policy.uses_estimate))


def test_made_up_jobs_are_of_all_kinds():
    jobs = made_up()
    assert {job.executed > 0 for job in jobs} == {job.wait > 0 for job in jobs} == {True, False}
    assert len({job.gpus for job in jobs}) == 9


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("class Mine(shunter.Ordering):\n    x: float = 1.0", "has fields (x) and lacks @dataclass(frozen=True)"),
        ("class Mine(shunter.Ordering):\n    x = param(1.0, 'x')", "has fields (x) and lacks @dataclass(frozen=True)"),
        ("@dataclass\nclass Mine(shunter.Ordering):\n    x: float = 1.0", "cannot inherit non-frozen dataclass"),
        (
            "class Mine:\n    def __init__(self, x): ...\n    def decide(self, view, memory): ...",
            "missing 1 required positional argument: 'x'",
        ),
        ("class Mine:\n    def decide(self, view, memory): ...", "a policy needs 'needs', 'start' and 'decide'"),
        ("ratio = 1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_library", "install no_such_library"),
        ("class Mine(", "line 4: '(' was never closed"),
    ],
)
def test_a_class_that_is_no_policy(tmp_path, monkeypatch, body, says):
    (tmp_path / "users_class.py").write_text(
        f"import shunter\nfrom dataclasses import dataclass\nfrom shunter.params import param\n{body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(app, ["simulate", JOBS, "-c", "2x8", "-p", "users_class.Mine"])
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert len(done.stderr.splitlines()) <= 4  # a long line may be wrapped


def test_without_pytest_the_suites_say_how_to_get_it(tmp_path):
    code = """
        import sys
        sys.modules["pytest"] = None
        try:
            import shunter.testing.conformance
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("InputError the conformance suites need pytest; install it with: pip install pytest")


def test_the_flags_are_documented():
    text = (Path(__file__).parents[2] / "docs/reference/policies.md").read_text()
    for name in ("uses_estimate", "varying", "ageing", "preemptive", "quantum", "Preempt", "key_params"):
        assert f"`{name}" in text, name


WITHOUT = """
from dataclasses import dataclass
import shunter

@dataclass(frozen=True)
class Mine(shunter.Ordering):
    {lines}
"""


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("@staticmethod\n    def kye(job, p):\n        return job.gpus", "has no 'key'.*rename 'kye' to 'key'"),
        ("pass", "has no 'key'.*write one"),
        ("def key(self, job):\n        return job.gpus", "write @staticmethod above it"),
        (
            "backfill: float = 3.0\n    @staticmethod\n    def key(job, p):\n        return job.gpus",
            r"Mine\.backfill is a parameter of every order \('none' by default\), got 3.0; choose another name",
        ),
    ],
)
def test_a_class_that_would_run_as_another_order_is_refused(tmp_path, monkeypatch, lines, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_class.py").write_text(WITHOUT.format(lines=lines))
    sys.modules.pop("users_class", None)
    with pytest.raises(PolicyError, match=words):
        registry.policy("users_class.Mine")


def test_a_module_that_fails_in_the_standard_library_is_shown_by_its_own_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_thaw.py").write_text(WITHOUT.format(lines="pass").replace("(frozen=True)", ""))
    with pytest.raises(PolicyError, match=r"users_thaw\.py:\d+: @dataclass"):
        registry.policy("users_thaw.Mine")


@pytest.mark.parametrize(
    ("key", "before"),
    [
        ("(lambda gpus: 2 * gpus)(job.gpus)", ""),
        ("job.gpus if WEIGHT is None else WEIGHT * job.gpus", "WEIGHT = None"),
        ("job.gpus if p.ndim == 1 else p[0, 0]", ""),
        ("doubled(job.gpus)", "@njit\ndef doubled(gpus, by=None):\n    return 2 * gpus if by is None else by * gpus"),
    ],
)
def test_a_key_may_be_written_as_numba_allows(tmp_path, monkeypatch, key, before):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_key.py").write_text(CLASS.format(key=key, flags="", params="np.zeros(0)", before=before))
    sys.modules.pop("users_key", None)
    found = shunter.simulate(JOBS, "2x8", "users_key.Mine")
    assert found.digest == shunter.simulate(JOBS, "2x8", "smallest").digest


def test_a_compiled_key_looks_up_only_what_it_reads():
    """A key is computed millions of times; what others read of a job costs it nothing."""

    def brief(job, p):
        return job.gpus

    def longer(job, p):
        return job.gpus + job.attained + job.usage + job.growth

    codes = {key: key_pointer(key).inspect_llvm() for key in (brief, longer)}
    loads = {key: code.count(" load ") for key, code in codes.items()}
    assert loads[brief] < loads[longer] < 60, "fields that are not read are left out"
    assert not any("describe" in line for code in codes.values() for line in code.splitlines() if "define" in line)
