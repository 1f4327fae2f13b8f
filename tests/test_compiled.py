"""Where machine code is kept, and what it depends on."""

import re
import subprocess
import sys
from pathlib import Path

import shunter
from shunter import compiled


def test_rooms_whose_edits_compile_nothing_have_no_kernels():
    package = Path(shunter.__file__).parent
    for room in compiled.WITHOUT_KERNELS:
        sources = [package / room] if room.endswith(".py") else list((package / room).rglob("*.py"))
        assert sources, f"there is no room {room}"
        for source in sources:
            text = source.read_text()
            assert not re.search(r"@kernel|pointer\(|njit|cfunc", text), source


def test_compiling_is_announced_once():
    calls = "[said(name) for name in ('a', 'b', '', 'c', '')]"
    code = f"from shunter.cli.compile_kernels import Notice; said = Notice(); {calls}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("compiling: kernels are compiled, once for this version")
