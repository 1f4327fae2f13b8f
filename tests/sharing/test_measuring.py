"""Measuring how loops share a GPU: rows as they come, going on, processes that die, NVML; loops where PyTorch is."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest

from shunter.sharing import measuring
from shunter.sharing.measuring import CONFIGURATIONS, PAIRS, SOLO, BenchSettings, MeasuringError, bench, measure, nvml
from shunter.sharing.measuring.__main__ import main
from shunter.sharing.measuring.errors import HostError
from shunter.sharing.measuring.hosts import Ran
from shunter.sharing.measuring.kit import Kit
from shunter.sharing.measuring.plan import planned, walk
from shunter.sharing.profiles import read

NAMES = ("ppo-b256", "lstm-b20", "gpt-b8")
ALONE = {"ppo-b256": 10.0, "lstm-b20": 20.0, "gpt-b8": 40.0}  # steps/s


class FakeHost:
    """Loops that run at half their speed when both processes run one."""

    alive: ClassVar[list[FakeHost]] = []
    started: ClassVar[int] = 0
    dies: ClassVar[set[str]] = set()  # when built

    def __init__(self, device, number):
        self.number, self.built, self.kept, self.order_ = number, set(), 0.0, None
        FakeHost.started += 1
        self.alive.append(self)

    def order(self, name, begin=None, end=None):
        self.order_ = (name, begin, end)

    def halt(self):
        self.order_ = ()

    def hear(self, seconds):
        if self.order_ is None:
            return {"torch": "9.9", "cuda": "13.0"}
        if self.order_ == ():
            return ()
        name, begin, end = self.order_
        if begin is None:
            if name in self.dies:
                raise HostError("CUDA out of memory")
            self.kept += 100.0
            return 300.0, self.kept
        together = sum(each.order_ not in (None, ()) and each.order_[1] is not None for each in self.alive)
        share, seconds = 1.0 if together == 1 else 0.5, end - begin
        return Ran(ALONE[name] * seconds * share, seconds, seconds)

    def kill(self):
        self.alive.remove(self)


class FakeGpu(nvml.NoGpu):
    name, driver = "Fake 1", "500.1"

    def utilisation(self):
        return 40.0, 20.0

    def memory(self):
        return 1e5, sum(500.0 + each.kept for each in FakeHost.alive if each.built)


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose GPU, PyTorch and processes are made up."""
    FakeHost.alive, FakeHost.started, FakeHost.dies = [], 0, set()
    made = FakeGpu()
    monkeypatch.setattr(bench, "Host", FakeHost)
    monkeypatch.setattr(bench, "Gpu", lambda index: made)
    monkeypatch.setattr(bench, "LEAD", 0.0)
    monkeypatch.setattr(bench, "EVERY", 0.002)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return made


def settings(folder, **other):
    return BenchSettings(folder, **{"seconds": 0.01, "only": NAMES, **other})


def rows(folder, name):
    return [line.split(",") for line in (folder / name).read_text().splitlines()[1:]]


def test_the_configurations_differ():
    names = [each.name for each in CONFIGURATIONS]
    assert len(set(names)) == len(names) >= 30
    assert len({each.kind for each in CONFIGURATIONS}) >= 7
    assert {each.amp for each in CONFIGURATIONS} == {False, True}
    assert len({each.batch for each in CONFIGURATIONS}) >= 5


def test_a_plan_has_as_many_partners_for_all():
    names = [each.name for each in CONFIGURATIONS]
    pairs = planned(names, 12)
    assert planned(names, 12) == pairs
    assert len(set(pairs)) == len(pairs) == len(names) * 12 // 2 + len(names)
    assert {(name, name) for name in names} <= set(pairs)
    assert set(Counter(name for pair in pairs for name in set(pair)).values()) == {13}
    assert len(planned(names, 99)) == len(names) * (len(names) + 1) // 2


@pytest.mark.parametrize("partners", [1, 4, 12, 99])
def test_each_of_a_pair_runs_alone_just_before_or_after(partners):
    pairs = planned([each.name for each in CONFIGURATIONS], partners)
    order = list(walk(pairs))
    together = [tuple(sorted(names)) for names in order if len(names) == 2]
    assert sorted(together) == sorted(tuple(sorted(pair)) for pair in pairs)
    for at, names in enumerate(order):
        if len(names) == 2:
            near = {name for each in order[max(0, at - 2) : at + 2] if len(each) == 1 for name in each}
            assert set(names) <= near


def test_alone_and_in_pairs(gpu, tmp_path):
    assert measure(settings(tmp_path)) == 0
    found = read(tmp_path)
    assert set(found.names) == set(NAMES)
    assert dict(zip(found.names, found.steps_per_s, strict=True)) == pytest.approx(ALONE)
    assert found.gpu_util.tolist() == [40.0] * 3
    assert found.mem_mib.tolist() == [800.0] * 3  # 300 of the loop at most, and what a process has beside loops
    assert found.pair == pytest.approx(0.5)
    assert found.about["gpu"] == "Fake 1"
    assert found.about["torch"] == "9.9"
    assert found.about["context_mib"] == 500
    assert FakeHost.alive == []
    assert FakeHost.started == 2


def test_it_goes_on_where_it_was(gpu, tmp_path, capsys):
    assert measure(settings(tmp_path, minutes=0.0)) == 6
    assert "time is up with 6 pairs to do" in capsys.readouterr().err
    assert measure(settings(tmp_path, only=NAMES[:2])) == 0
    assert len(rows(tmp_path, "pairs.csv")) == 3
    assert measure(settings(tmp_path)) == 0
    pairs = [tuple(sorted(row[:2])) for row in rows(tmp_path, "pairs.csv")]
    assert len(set(pairs)) == len(pairs) == 6
    before = FakeHost.started
    assert measure(settings(tmp_path)) == 0
    assert FakeHost.started == before  # all is there


def test_a_loop_that_can_not_be_built_is_left_out(gpu, tmp_path, capsys):
    FakeHost.dies = {"gpt-b8"}
    assert measure(settings(tmp_path)) == 3
    assert "gpt-b8: left out, because CUDA out of memory" in capsys.readouterr().err
    assert len(read(tmp_path)) == 2
    FakeHost.dies = set()
    assert measure(settings(tmp_path)) == 0
    assert len(read(tmp_path)) == 3


def test_a_process_that_dies_is_started_again(gpu, tmp_path, monkeypatch, capsys):
    hear, failed = FakeHost.hear, []

    def once(self, seconds):
        if self.order_ and self.order_[1] is not None and self.order_[0] == "gpt-b8" and not failed:
            failed.append(self)
            raise HostError("process 0 died with exit code -9")
        return hear(self, seconds)

    monkeypatch.setattr(FakeHost, "hear", once)
    measure(settings(tmp_path))
    assert "left out, because process 0 died" in capsys.readouterr().err
    assert measure(settings(tmp_path)) == 0
    assert read(tmp_path).pair == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("solo.csv", "a,b\n", "must begin with name,kind"),
        ("pairs.csv", "x\n", "must begin with name1,name2"),
        ("solo.csv", "HEAD\nppo-b256,reinf", "a line has too few or too many fields"),
        ("about.json", "{", "is no JSON"),
        ("about.json", '{"gpu": "Other 2"}', "gpu was Other 2 and is Fake 1 now"),
        ("about.json", '{"gpu": "Fake 1", "driver": "500.1", "torch": "9.9", "mps": true}', "mps was True"),
    ],
)
def test_another_measurement_is_not_gone_on_with(gpu, tmp_path, name, text, said):
    (tmp_path / name).write_text(text.replace("HEAD", ",".join(SOLO)))
    with pytest.raises(MeasuringError, match=said):
        measure(settings(tmp_path))
    assert FakeHost.alive == []


def test_what_is_wrong_with_settings(gpu, tmp_path):
    with pytest.raises(MeasuringError, match="no configuration nothing; known: ppo-b256"):
        measure(settings(tmp_path, only=("nothing",)))
    with pytest.raises(MeasuringError, match="seconds must be more than 0"):
        measure(settings(tmp_path, seconds=0.0))
    assert not list(tmp_path.iterdir())


def test_without_pytorch_or_a_driver(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["--out", str(tmp_path / "a")]) == 2
    assert "PyTorch is missing; install it with: pip install torch" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())

    def missing(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert main(["--out", str(tmp_path / "a")]) == 2
    assert "NVML (libnvidia-ml.so.1 of NVIDIA's driver) is missing" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


class FakeNvml:
    """NVML with two GPUs, of which only the second answers."""

    def __getattr__(self, name):
        return lambda *arguments: 0

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):  # noqa: N802
        handle._obj.value = 1000 + index.value
        return 0

    def nvmlDeviceGetName(self, handle, text, size):  # noqa: N802
        text.value = b"NVIDIA Test"
        return 0

    def nvmlDeviceGetUUID(self, handle, text, size):  # noqa: N802
        text.value = b"GPU-%d" % handle.value
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle, rates):  # noqa: N802
        rates._obj.gpu, rates._obj.memory = 77, 33
        return 0 if handle.value == 1001 else 15

    def nvmlDeviceGetMemoryInfo(self, handle, memory):  # noqa: N802
        memory._obj.total, memory._obj.free, memory._obj.used = 4 << 30, 3 << 30, 1 << 30
        return 0

    def nvmlDeviceGetPowerUsage(self, handle, milliwatts):  # noqa: N802
        milliwatts._obj.value = 250_500
        return 0

    def nvmlGpmMetricsGet(self, asked):  # noqa: N802
        for each in asked._obj.metrics[: asked._obj.count]:
            each.value, each.code = 10.0 * each.number, 0 if each.number != 10 else 3
        return 0

    def nvmlErrorString(self, code):  # noqa: N802
        return b"lost"


def test_what_nvml_reports(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeNvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpu = nvml.Gpu(1)
    assert gpu.name == "NVIDIA Test"
    assert nvml.os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1001"
    assert gpu.utilisation() == (77, 33)
    assert gpu.memory() == (4096, 1024)
    assert gpu.power() == 250.5
    sm, occupancy, dram = gpu.between(gpu.counters(), gpu.counters())
    assert (sm, occupancy) == (20.0, 30.0)
    assert math.isnan(dram)  # the driver refused this one
    assert all(map(math.isnan, gpu.between(None, None)))
    with pytest.raises(MeasuringError, match="GPU 2 is not there: the driver knows 2"):
        nvml.Gpu(2)


def test_it_runs_as_a_folder_alone(tmp_path):
    """Away from the package, as on a machine that has nothing else."""
    shutil.copytree(
        Path(measuring.__file__).parent, tmp_path / "measuring", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [sys.executable, "-m", "measuring", "--list"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert [line.split()[0] for line in printed.splitlines()] == [each.name for each in CONFIGURATIONS]


# without mixed precision, for which torch uses instructions that some virtual machines announce and don't have
SMALL = [each.name for each in CONFIGURATIONS if each.name.split("-")[0] not in ("bert", "gpt") and not each.amp]


@pytest.mark.parametrize("name", SMALL)
def test_a_loop_trains(name):
    """Every step changes the model."""
    pytest.importorskip("torch", reason="no PyTorch")
    loop = next(each for each in CONFIGURATIONS if each.name == name)
    kit = Kit("cpu", loop.batch, loop.amp, 1)
    losses = []
    learn = kit.learn
    kit.learn = lambda *arguments: losses.append(float(learn(*arguments).detach()))
    step = loop.build(kit)
    step()
    step()
    assert len(losses) >= 2
    assert len(set(losses)) > 1
    assert all(map(math.isfinite, losses))


def test_processes_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="no PyTorch")
    command = [sys.executable, "-m", measuring.__name__, "--out", str(tmp_path), "--device", "cpu", "--seconds", "0.1"]
    done = subprocess.run([*command, "--only", "td3-b256"], capture_output=True, text=True, check=True)
    assert "td3-b256 + td3-b256" in done.stderr
    assert len(read(tmp_path)) == 1
    assert rows(tmp_path, "pairs.csv")[0][PAIRS.index("seconds")] == "0.10"
    assert json.loads((tmp_path / "about.json").read_text())["mps"] is False
