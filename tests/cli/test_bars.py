"""Bars: on a terminal only, one display for all of them, and nothing left of them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

COMPILING = """
from shunter import notices
from shunter.cli.compile_kernels import Notice

notices.compiling.set(Notice())
from shunter.compiled import kernel

def plus(a, b):
    return a + b

plus.__module__ = "{module}"
assert kernel(plus)(1, 2) == 3
print("done")
"""
OURS, THEIRS = COMPILING.format(module="shunter.adding"), COMPILING.format(module="mylab.adding")
TWO = """
import time
from shunter.cli import console

console.PATIENCE_S = 0
with console.progress("comparing") as on_progress:
    on_progress(1, 2)
    below = console.Bar("compiling", "kernels, about")
    below.show(3, 100)
    console._bars().refresh()
    below.hide()
    on_progress(2, 2)
print("done")
"""
SHOW_CURSOR = "\x1b[?25h"


def script(code: str, tmp_path) -> list[str]:
    (tmp_path / "script.py").write_text(code)
    return [sys.executable, str(tmp_path / "script.py")]


def on_terminal(code: str, tmp_path) -> str:
    """What a terminal gets from a script on standard error."""
    ours, theirs = pty.openpty()
    places = {"SHUNTER_KERNELS": str(tmp_path / "kernels"), "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run(script(code, tmp_path), stderr=theirs, env=os.environ | places, check=True)
    os.close(theirs)
    found = b""
    try:
        while part := os.read(ours, 2**16):
            found += part
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return re.sub(r"\x1b\[[\d;]*m", "", found.decode())  # without colours


def test_compiling_has_a_bar_on_a_terminal(tmp_path):
    text = on_terminal(OURS, tmp_path)
    assert "compiling: the first run of this version compiles its kernels, about 30 s" in text
    assert re.search("compiling, about 30 s ━+", text)
    assert "1/100 kernels, about" in text
    assert SHOW_CURSOR in text


def test_compiling_is_a_plain_line_elsewhere(tmp_path):
    place = {"SHUNTER_KERNELS": str(tmp_path / "kernels")}
    command = script(OURS, tmp_path)
    done = subprocess.run(command, env=os.environ | place, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("compiling: the first run of this version compiles its kernels, about 30 s")
    assert done.stderr.count("\n") == 1
    assert "━" not in done.stderr
    assert "\x1b" not in done.stderr


def test_what_third_parties_compile_is_not_announced(tmp_path):
    """Every command compiles their keys again, in less than a second."""
    place = {"SHUNTER_KERNELS": str(tmp_path / "kernels")}
    done = subprocess.run(script(THEIRS, tmp_path), env=os.environ | place, capture_output=True, text=True, check=True)
    assert (done.stderr, done.stdout) == ("", "done\n")


def test_two_bars_stand_below_each_other(tmp_path):
    text = on_terminal(TWO, tmp_path)
    both = next(frame for frame in text.split("\x1b[2K") if "3/100 kernels, about" in frame)
    assert re.search(r"comparing ━.*\n.*compiling ━", both, re.DOTALL)
    assert SHOW_CURSOR in text
