"""Workers: Ctrl-C is their parent's from their first instruction, and what they compile is passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache

import pytest

from shunter import notices, processes
from shunter.sim import side_compiling

EARLY = """
import multiprocessing, os, signal
if multiprocessing.current_process().name != "MainProcess":
    os.kill(os.getpid(), signal.SIGINT)  # while the worker still imports

def work(shared, task, report):
    return shared + task
"""
RUN = """
if __name__ == "__main__":
    import early
    from shunter.processes import run_tasks
    print(run_tasks(early.work, 10, [1, 2], [1, 1], 2, lambda done, total: None))
"""


def test_ctrl_c_while_workers_start_is_not_theirs(tmp_path):
    (tmp_path / "early.py").write_text(EARLY)
    (tmp_path / "run.py").write_text(RUN)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "[11, 12]\n")


CTRL_C = """
import os, signal, threading, time
from shunter import processes
threading.Thread(target=time.sleep, args=(1,), daemon=True).start()  # it takes what the main thread blocks
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
try:
    with processes.ctrl_c_later():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        print("inside")
except KeyboardInterrupt:
    print("afterwards", signal.pthread_sigmask(signal.SIG_BLOCK, []) == before)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_ctrl_c_while_workers_start_comes_afterwards():
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=True)
    assert done.stdout == "inside\nafterwards True\n"


def compile_something(_shared, task, _report):
    for kernel in ("outer", "inner", ""):
        notices.compiling.get()(kernel)
    return task


def test_what_workers_compile_is_passed_on_and_ends():
    heard: list[str] = []
    before = notices.compiling.set(heard.append)
    processes.run_tasks(compile_something, None, [1, 2], [1, 1], 2, lambda done, total: None)
    notices.compiling.reset(before)
    assert sorted(filter(None, heard)) == ["of a worker"] * 4
    assert heard[-1] == ""


def test_the_second_compiler_ends_with_ctrl_c(monkeypatch):
    started = []
    monkeypatch.setattr(side_compiling, "_helper", cache(side_compiling._helper.__wrapped__))
    monkeypatch.setattr(side_compiling, "_needed", lambda: True)
    monkeypatch.setattr(
        side_compiling, "_start", lambda: started.append(subprocess.Popen(["sleep", "20"])) or started[0]
    )
    with pytest.raises(KeyboardInterrupt), side_compiling.engine():
        raise KeyboardInterrupt
    assert started[0].returncode == -signal.SIGKILL


IMPORTING = """
import sys
from functools import cache

class Stop:
    def find_spec(self, name, *_):
        if name == "shunter.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop())
from shunter.__main__ import main
main()
"""


def test_ctrl_c_while_commands_are_imported_is_a_line():
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted: stopped\n")
