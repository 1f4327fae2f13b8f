"""Whatever a trace holds, it can be described, checked, drawn and put on a page."""

from __future__ import annotations

import io
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from shunter import clusters
from shunter.cluster import Cluster, NodeGroup
from shunter.model import Trace
from shunter.report.calendar import zone_of
from shunter.report.describe import describe
from shunter.report.html.trace_page import trace_page
from shunter.report.quality import validate
from shunter.report.terminal.quality import validate_view
from shunter.report.terminal.trace import describe_view

CLUSTERS = [None, clusters.load("2x8"), Cluster("parted", (NodeGroup(1, 8, "v100", vc="a"), NodeGroup(1, 4, vc="b")))]
EXTREMES = {
    "submit": [-(10**15), 0, 1, 1_600_000_000_000, 10**15],
    "duration": [0, 1, 60_000, 172_800_000, 10**12],
    "gpus": [1, 500, 1000, 8000, 10**9],
    "limit": [0, 1, 10**12],
    "recorded_wait": [-1, 0, 10**12],
    "cpus": [0, 10**9],
    "user": [-1, 0, 1],
    "vc": [-1, 0, 1],
    "gpu_type": [-1, 0],
    "job_name": [-1, 0, 1],
    "outcome": [-1, 0],
}
NAMES = {
    "users": ("[b]u", "<i>"),
    "vcs": ("a", "b"),
    "gpu_types": ("v100",),
    "job_names": ("", "x"),
    "outcomes": ("é",),
}


@st.composite
def extreme(draw: st.DrawFn) -> Trace:
    """A few jobs at the edges of what a trace may hold."""
    jobs = draw(st.integers(1, 6))
    columns = {
        name: np.array([draw(st.sampled_from(values)) for _ in range(jobs)], np.int64)
        for name, values in EXTREMES.items()
    }
    return Trace.of("[bold]odd[/]", [f"[{i}]" for i in range(jobs)], **columns, **NAMES, remarks=("[red]",))


@given(extreme(), st.sampled_from(CLUSTERS), st.sampled_from(["UTC", "Europe/Berlin", "-11:30"]))
def test_any_trace_can_be_looked_at(trace, cluster, zone):
    about = describe(trace, cluster, zone_of(zone))
    json.dumps(about, allow_nan=False)
    findings = validate(trace, cluster)
    out = io.StringIO()
    console = Console(file=out, width=100, color_system=None)
    console.print(describe_view(about))
    console.print(validate_view(trace.name, len(trace), findings))
    assert "[bold]odd[/]" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 100
    assert "</html>" in trace_page(trace, about, findings)
