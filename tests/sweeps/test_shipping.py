"""Workers get what runs share once, and one process of a machine compiles a kernel for all."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import pytest
from sweeping import Sweeping

from shunter import extras

# every Python that finds this on its path executes it when it starts
COUNTING = """
    import os
    from pathlib import Path

    def noted(what):
        with (Path(os.environ["COUNTS"]) / str(os.getpid())).open("a") as file:
            print(what, file=file)

    if "COUNTS" in os.environ:
        from numba.core import event
        from shunter.sweeps import places

        def restored(ground, state):
            ground.__dict__.update(state)
            noted("ground")

        class Compiled(event.Listener):
            def on_start(self, begun):
                function = begun.data["dispatcher"].py_func
                if function.__module__.startswith("shunter."):  # numba's own small ones are not kept on disk
                    noted(f"{function.__module__}.{function.__qualname__} {begun.data['args']}")

            def on_end(self, ended):
                pass

        places.Ground.__setstate__ = restored
        event.register("numba:compile", Compiled())
"""


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(COUNTING))
    (tmp_path / "counts").mkdir()
    return tmp_path / "counts"


@pytest.mark.parametrize("options", [("--workers", "2"), ("--dask", "local:2")])
def test_traces_are_shipped_once_to_each_worker(options: tuple[str, str], tmp_path: Path, counts: Path) -> None:
    if "--dask" in options and not (extras.is_there("distributed") and extras.is_there("cryptography")):
        pytest.skip("no distributed and cryptography; ./scripts/install all,dev has them")
    sweeping = Sweeping(tmp_path, seeds=60)
    sweeping.run("runs", *options, COUNTS=str(counts), PAUSE_S="0.05")
    assert sweeping.runs("runs").height == 60
    shipped = [file.read_text().splitlines().count("ground") for file in counts.iterdir()]
    assert sum(shipped) in (1, 2)  # a worker that is slow to start may get nothing to do
    assert max(shipped) == 1


@pytest.mark.slow
def test_a_kernel_is_compiled_by_one_process(tmp_path: Path, counts: Path) -> None:
    sweeping = Sweeping(tmp_path)
    text = (tmp_path / "sweep.toml").read_text().replace('"slowly.Slow"', '"fifo", "las"')
    (tmp_path / "sweep.toml").write_text(text)
    (tmp_path / "kernels").mkdir(mode=0o700)
    sweeping.run("runs", "--workers", "4", COUNTS=str(counts), SHUNTER_KERNELS=str(tmp_path / "kernels"))
    compiled = Counter(line for file in counts.iterdir() for line in file.read_text().splitlines() if line != "ground")
    assert len(compiled) >= 2
    assert max(compiled.values()) == 1
