"""Measuring how loops share a GPU: rows as they come, going on, workers that die, and NVML; loops where PyTorch is."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import subprocess
import sys
from itertools import combinations_with_replacement
from types import SimpleNamespace
from typing import ClassVar

import pytest

from shunter.sharing import measuring
from shunter.sharing.measuring import CONFIGURATIONS, MeasuringError, Settings, WorkerError, main, measure
from shunter.sharing.profiles import read

NAMES = ("ppo-b256", "lstm-b20", "gpt-b8")
ALONE = {"ppo-b256": 10.0, "lstm-b20": 20.0, "gpt-b8": 40.0}  # steps/s


class FakeWorker:
    """A loop that runs at half its speed when another is alive and told to run with it."""

    alive: ClassVar[list[FakeWorker]] = []
    started: ClassVar[list[tuple[str, int]]] = []
    dies: ClassVar[set[str]] = set()  # when built

    def __init__(self, name, device, copy):
        self.name, self.copy, self.built, self.orders = name, copy, False, []
        self.process = SimpleNamespace(pid=len(self.started))
        self.started.append((name, copy))
        self.alive.append(self)

    def tell(self, what):
        self.orders.append(what)

    def hear(self, seconds):
        if not self.orders:
            return {"torch": "9.9", "cuda": "13.0"}
        if self.orders[-1] == "build":
            if self.name in self.dies:
                raise WorkerError(f"{self.name}: CUDA out of memory")
            return ()
        together = sum(len(each.orders) > 1 and each.orders[-1] is not None for each in self.alive)
        self.alone = together == 1
        seconds = self.orders[-1][1]
        return (ALONE[self.name] * seconds * (1.0 if self.alone else 0.5), seconds)

    def stop(self):
        self.alive.remove(self)


class FakeBench(measuring.Bench):
    """Forgets orders after each run, so that who ran before doesn't count as running."""

    def run(self, keys):
        found = super().run(keys)
        for worker in self.workers.values():
            worker.orders = worker.orders[:1]
        return found


class FakeGpu(measuring.NoGpu):
    name, driver = "Fake 1", "500.1"

    def __init__(self, free=1e6):
        self.free = free

    def utilisation(self):
        return 40.0, 20.0

    def memory(self):
        used = 1000.0 * len([each for each in FakeWorker.alive if each.orders])
        return 1e5, self.free - used, used

    def memory_of(self, pid):
        return None


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose GPU, PyTorch and workers are made up."""
    FakeWorker.alive, FakeWorker.started, FakeWorker.dies = [], [], set()
    made = FakeGpu()
    monkeypatch.setattr(measuring, "Worker", FakeWorker)
    monkeypatch.setattr(measuring, "Bench", FakeBench)
    monkeypatch.setattr(measuring, "Gpu", lambda index: made)
    monkeypatch.setattr(measuring, "LEAD", 0.0)
    monkeypatch.setattr(measuring, "TAIL", 0.0)
    monkeypatch.setattr(measuring, "EVERY", 0.002)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return made


def settings(folder, **other):
    return Settings(folder, **{"seconds": 0.01, "only": NAMES, **other})


def test_the_configurations_differ():
    names = [each.name for each in CONFIGURATIONS]
    assert len(set(names)) == len(names) >= 12
    assert len({each.kind for each in CONFIGURATIONS}) >= 7
    assert {each.amp for each in CONFIGURATIONS} == {False, True}
    assert len({each.batch for each in CONFIGURATIONS}) >= 5


def test_alone_and_in_pairs(gpu, tmp_path):
    assert measure(settings(tmp_path)) == 0
    found = read(tmp_path)
    assert set(found.names) == set(NAMES)
    assert dict(zip(found.names, found.steps_per_s, strict=True)) == ALONE
    assert found.gpu_util.tolist() == [40.0] * 3
    assert found.mem_mib.tolist() == [1000.0] * 3  # what the device's memory grew by
    assert (found.pair == 0.5).all()
    assert found.about["gpu"] == "Fake 1"
    assert found.about["torch"] == "9.9"
    assert "grew" in found.about["memory"]
    assert FakeWorker.alive == []
    assert sorted(FakeWorker.started) == sorted((name, copy) for name in NAMES for copy in (0, 1))


def test_it_goes_on_where_it_was(gpu, tmp_path, capsys):
    assert measure(settings(tmp_path, alone=True)) == 0
    solo = (tmp_path / "solo.csv").read_text()
    assert measure(settings(tmp_path, minutes=0.0)) == 9
    assert "time is up with 9 measurements to do" in capsys.readouterr().err
    assert measure(settings(tmp_path, only=NAMES[:2])) == 0
    assert len((tmp_path / "pairs.csv").read_text().splitlines()) == 1 + 3
    assert measure(settings(tmp_path)) == 0
    FakeWorker.started.clear()
    assert measure(settings(tmp_path)) == 0
    assert FakeWorker.started == []  # all is there
    first, *rows = (tmp_path / "solo.csv").read_text().splitlines()
    assert "\n".join([first, *rows[:3]]) + "\n" == solo
    assert sorted(rows[3:]) == sorted(rows[:3])  # each once more, at the end
    pairs = [tuple(line.split(",")[:2]) for line in (tmp_path / "pairs.csv").read_text().splitlines()[1:]]
    order = [each.name for each in CONFIGURATIONS if each.name in NAMES]
    assert sorted(pairs) == sorted(combinations_with_replacement(order, 2))


def test_a_loop_that_does_not_start_is_left_out(gpu, tmp_path, capsys):
    FakeWorker.dies = {"gpt-b8"}
    assert measure(settings(tmp_path)) == 5
    said = capsys.readouterr().err
    assert "gpt-b8: left out, because gpt-b8: CUDA out of memory" in said
    assert "lstm-b20 + gpt-b8: left out, because gpt-b8 was not measured alone" in said
    assert len(read(tmp_path)) == 2
    FakeWorker.dies = set()
    assert measure(settings(tmp_path)) == 0
    assert len(read(tmp_path)) == 3


def test_where_room_is_short_workers_go(gpu, tmp_path):
    gpu.free = 9000.0
    assert measure(settings(tmp_path)) == 0
    assert len(FakeWorker.started) > 6  # some were started again
    assert not (read(tmp_path).pair != 0.5).any()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("solo.csv", "a,b\n", "must begin with name,kind"),
        ("solo.csv", "HEAD\nppo-b256,reinforcement,999,0,1,1,1,1\n", "of another version"),
        ("solo.csv", "HEAD\nunknown,reinforcement,999,0,1,1,1,1\n", "of another version"),
        ("pairs.csv", "x\n", "must begin with name1,name2"),
        ("solo.csv", "HEAD\nppo-b256,reinf", "a line has too few or too many fields"),
        ("about.json", "{", "is no JSON"),
        ("about.json", '{"gpu": "Other 2"}', "gpu was Other 2 and is Fake 1 now"),
    ],
)
def test_another_measurement_is_not_gone_on_with(gpu, tmp_path, name, text, said):
    (tmp_path / name).write_text(text.replace("HEAD", ",".join(measuring.SOLO)))
    with pytest.raises(MeasuringError, match=said):
        measure(settings(tmp_path))
    assert FakeWorker.alive == []


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

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, found):  # noqa: N802
        for i, (pid, used) in enumerate([(7, 2**64 - 1), (9, 512 << 20)]):
            found[i].pid, found[i].used = pid, used
        count._obj.value = 2
        return 0

    def nvmlErrorString(self, code):  # noqa: N802
        return b"lost"


def test_what_nvml_tells(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeNvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpu = measuring.Gpu(1)
    assert gpu.name == "NVIDIA Test"
    assert measuring.os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1001"
    assert gpu.utilisation() == (77, 33)
    assert gpu.memory() == (4096, 3072, 1024)
    assert gpu.memory_of(9) == 512
    assert gpu.memory_of(7) is None  # "not available" in a virtual machine
    assert gpu.memory_of(8) is None
    FakeNvml.nvmlErrorString.restype = None
    with pytest.raises(MeasuringError, match="GPU 2 is not there: the driver knows 2"):
        measuring.Gpu(2)


def test_it_runs_as_a_file_alone():
    """Away from the package, as on a machine that has nothing else."""
    command = [sys.executable, "-I", measuring.__file__, "--list"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in printed.splitlines()] == [each.name for each in CONFIGURATIONS]


@pytest.mark.parametrize("name", [each.name for each in CONFIGURATIONS if each.name not in ("bert-b32-amp", "gpt-b8")])
def test_a_loop_trains(name):
    """Every step changes the model."""
    pytest.importorskip("torch", reason="no PyTorch")
    loop = next(each for each in CONFIGURATIONS if each.name == name)
    kit = measuring.Kit("cpu", loop.batch, loop.amp, 1)
    losses = []
    learn = kit.learn
    kit.learn = lambda *arguments: losses.append(float(learn(*arguments).detach()))
    step = loop.build(kit)
    step()
    step()
    assert len(losses) >= 2
    assert len(set(losses)) > 1
    assert all(map(math.isfinite, losses))


def test_workers_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="no PyTorch")
    command = [sys.executable, measuring.__file__, "--out", str(tmp_path), "--device", "cpu", "--seconds", "0.1"]
    done = subprocess.run([*command, "--only", "td3-b256"], capture_output=True, text=True, check=True)
    assert "td3-b256 + td3-b256" in done.stderr
    assert len(read(tmp_path)) == 1
    assert json.loads((tmp_path / "about.json").read_text())["seconds"] == 0.1
