"""How long the page takes for its first page and for a what-if: ``python -m benchmarks.web_answers``.

The page is served in this process and asked over the loopback address. The first answers compile and are not counted.
Seconds are from the request to the last byte, or to the first. CPU seconds are those of the process, client included.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import uvicorn

import shunter
from shunter.web.app import make_app
from shunter.web.serving import open_port
from shunter.web.settings import WebSettings

TOKEN = "benchmark-" * 4
POLICIES = ("fifo", "saf", "las")


def first_page(port: int) -> tuple[float, float, float]:
    """The list of runs: seconds until the first byte, until all is there, and of CPU."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    begun, worked = time.perf_counter(), time.process_time()
    client.request("GET", "/runs", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.getresponse()
    answer.read(1)
    first = time.perf_counter() - begun
    answer.read()
    found = first, time.perf_counter() - begun, time.process_time() - worked
    client.close()
    if answer.status != 200:
        raise RuntimeError(f"/runs: {answer.status}")
    return found


def asked(port: int, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[float, str]:
    """The seconds until an answer is there, and the answer."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = urlencode(fields) if fields else None
    begun = time.perf_counter()
    client.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
    answer = client.getresponse()
    text = answer.read().decode()
    seconds = time.perf_counter() - begun
    client.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {text[:300]}")
    return seconds, text


def what_if(port: int, jobs: int, policies: int, seed: int) -> float:
    """One what-if with other jobs than the one before; one that only shows its progress is waited for."""
    fields = {"trace": "synthetic", "jobs": str(jobs), "trace_seed": str(seed), "nodes": "16", "gpus": "8"}
    pairs = {f"p{number}.policy": name for number, name in enumerate(POLICIES[:policies])}
    slots = urlencode([("slot", f"p{number}") for number in range(policies)])
    begun = time.perf_counter()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    client.request("POST", "/what-if/run", f"{urlencode(fields | pairs)}&{slots}", {"Authorization": f"Bearer {TOKEN}"})
    text = client.getresponse().read().decode()
    client.close()
    if "data-task=" in text:
        task = text.partition('data-task="')[2].partition('"')[0]
        asked(port, "GET", f"/what-if/tasks/{task}/events")
        asked(port, "GET", f"/what-if/tasks/{task}")
    return time.perf_counter() - begun


def fill(folder: Path, runs: int) -> None:
    """Copies of one run, each with a name of its own."""
    shunter.simulate("synthetic:jobs=200,gpus=32", "4x8", "fifo").save(folder / "run-0")
    for number in range(1, runs):
        shutil.copytree(folder / "run-0", folder / f"run-{number}")


def measured(jobs: int, turns: int, runs: int = 0) -> dict[str, float]:
    """Medians over some turns, in seconds; with ``runs`` those of the first page of a folder with so many alone."""
    with tempfile.TemporaryDirectory() as folder:
        if runs:
            fill(Path(folder), runs)
        settings = WebSettings(Path(folder), port=0)
        port = open_port(settings)
        number = port.getsockname()[1]
        app = make_app(WebSettings(Path(folder), port=number), TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        found: dict[str, float] = {}
        if runs:
            names = ("cold_first_byte", "cold", "cold_cpu")  # as after a start: every run is read
            found |= dict(zip(names, first_page(number), strict=True))
        else:
            what_if(number, jobs, len(POLICIES), 0)
        columns = zip(*(first_page(number) for _ in range(turns)), strict=True)
        names = ("first_page_first_byte", "first_page", "first_page_cpu")
        found |= {name: statistics.median(column) for name, column in zip(names, columns, strict=True)}
        found["what_if_form"] = statistics.median(asked(number, "GET", "/what-if")[0] for _ in range(turns))
        for policies in () if runs else (1, 2, 3):
            worked = time.process_time()
            times = [what_if(number, jobs, policies, seed) for seed in range(1, turns + 1)]
            found[f"what_if_{policies}"] = statistics.median(times)
            found[f"what_if_{policies}_cpu"] = (time.process_time() - worked) / turns
        server.should_exit = True
        thread.join()
        port.close()
    return found


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--runs", type=int, default=500, help="in the folder of the second part")
    wanted = parser.parse_args()
    seconds = measured(wanted.jobs, wanted.turns)
    filled = measured(wanted.jobs, wanted.turns, wanted.runs)
    found = {"jobs": wanted.jobs, "turns": wanted.turns, "seconds": seconds, f"seconds_{wanted.runs}_runs": filled}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
