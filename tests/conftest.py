"""What all tests share."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from shunter import processes
from shunter.compiled import cache_folder

PATIENCE_MS = 180_000  # milliseconds; a busy machine takes its time
LABS = {"lab", "lab_with_database", "lab_folder"}  # fixtures that are Slurm clusters
CLUSTERS = ("slurm", "slurm-2")  # two processes run Slurm clusters, which mostly wait; the second one also slurmdbd
SECOND = {
    "test_audit", "test_autopilot_live", "test_backend_live", "test_controller_live", "test_guard", "test_killing",
    "test_lab", "test_lab_command", "test_requests_live",
}  # fmt: skip
# What takes longest begins first, so that no process has much left when the others are done.
LONG = [
    *CLUSTERS, "test_dask", "test_documents", "test_conformance", "test_examples", "test_lost_workers", "torch",
    "test_training", "test_command_line", "test_dally", "test_waits", "test_web_browser", "test_browser",
    "test_third_party", "test_measuring", "test_slurm_deadlines", "test_broken_stores", "test_tuning", "test_scored",
    "test_comparison", "test_shipping", "test_resuming", "test_live_autopilot", "test_benchmarks", "test_adapting",
    "test_running", "test_web_large", "test_web_tasks", "aaic", "test_start_forecasts", "test_caches",
]  # fmt: skip

BY_NAME = [
    ("shunter.sweeps.work", "_settings"),
    ("shunter.sweeps.work", "_kernels_of"),
]

# A shell starts what it puts into the background with SIGINT ignored, and so would be every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests share the cores: threads of torch that wait for each other in a loop would take them from other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# So would processes of comparisons and sweeps, which import and load everything; a test of those asks for workers.
processes.usable_cores = lambda: 1

# processes that tests start may have caches of their own, but need not compile again
os.environ.setdefault("SHUNTER_KERNELS", str(cache_folder().parent))

# The same examples each time: a change is judged by what it changed; scripts/test-search tries new ones. No deadlines:
# no test depends on the clock.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("search", derandomize=False, deadline=None, max_examples=500, print_blob=True)
settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One process runs all tests of a file, so that its set-up is made once; two processes run all clusters."""
    for item in items:
        if LABS & set(getattr(item, "fixturenames", ())) or any(map(item.get_closest_marker, ("slurm", "slow"))):
            item.add_marker(pytest.mark.xdist_group(_cluster(item)))
        elif item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if "PYTEST_XDIST_WORKER" in os.environ:
        sizes = Counter(map(_group, items))
        rank = {name: number for number, name in enumerate(LONG)}
        items.sort(key=lambda item: (rank.get(_group(item), len(rank)), -sizes[_group(item)]))


def _cluster(item):
    """Which of the two processes; one of them starts the database."""
    second = item.path.stem in SECOND or "lab_with_database" in getattr(item, "fixturenames", ())
    return CLUSTERS[second]


def _group(item):
    return item.get_closest_marker("xdist_group").args[0]


@pytest.fixture(scope="session", autouse=True)
def _no_word_on_compiling():
    """What a command prints must not depend on what was compiled before."""
    from shunter.cli import compile_kernels

    compile_kernels.Notice._begin = lambda _: None


@pytest.fixture(autouse=True)
def _no_runs_of_before(tmp_path_factory, monkeypatch):
    """What a test runs is run by it, and not found in the user's cache."""
    monkeypatch.setenv("SHUNTER_RUNS", str(tmp_path_factory.getbasetemp() / f"runs-{secrets.token_hex(8)}"))


@pytest.fixture(autouse=True)
def _no_modules_of_before(tmp_path_factory):
    """Modules that a test wrote are removed with their folders: another test may write one of the same name."""
    path, before = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    folder = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        own = vars(sys.modules[name])  # not getattr: some modules answer to any name
        places = [own.get("__file__") or "", *(own.get("__path__") or ())]
        if any(str(place).startswith(folder) for place in places):
            del sys.modules[name]
            _forget_policies()


def _forget_policies():
    """What is remembered of policies by their names."""
    for name, function in BY_NAME:
        if name in sys.modules:
            getattr(sys.modules[name], function).cache_clear()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real traces; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("SHUNTER_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real traces at {folder}; set SHUNTER_DATA to run this")
    return folder


@pytest.fixture(scope="session")
def browser():
    """A Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright; ./scripts/install all,dev has it")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("SHUNTER_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium; install it (apt-get install chromium), or name one with SHUNTER_CHROMIUM")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def expect(browser):
    """Waits until an element is as it should be: what follows a click or a key may come later than the next line."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a page without network; in the end, it must have asked for nothing and said nothing."""
    said, asked, contexts = [], [], []

    def open_page(text, **settings):
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        context = browser.new_context(offline=True, **settings)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        opened = context.new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto((tmp_path / "page.html").as_uri())
        if '<figure class="timeline"' in text:
            opened.wait_for_selector("canvas[data-ready]")
        return opened

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("file:")] == []
    assert len(asked) == len(contexts)
