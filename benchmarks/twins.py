"""How near synthetic twins come to what was published: ``python -m benchmarks.twins`` prints the table of the docs."""

from __future__ import annotations

import sys

import numpy as np

from shunter.model import GPU, Trace
from shunter.traces.twins import names, twin
from shunter.traces.twins.profile import TwinProfile, load
from shunter.world import F64, I64

JOBS = 100_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HABITS = ("0.53..0.90", "0.03", "2.9..4.7", "0.31..0.55")  # of AIST's AAIC log, by quarter


def figures(trace: Trace) -> dict[str, float]:
    """What is published of traces, measured on this one."""
    seconds, gpus, gaps = trace.duration / 1000, trace.gpus / GPU, np.diff(trace.submit // 1000)
    found = dict(zip(("median_s", "p90_s", "p95_s"), np.percentile(seconds, [50, 90, 95]).tolist(), strict=True))
    found |= {
        "jobs_per_day": len(trace) / ((trace.submit[-1] - trace.submit[0]) / DAY_MS),
        "mean_s": seconds.mean(),
        "mean_gpus": gpus.mean(),
        "mean_gpu_time_s": (gpus * seconds).mean(),
        "gap_cv": gaps.std() / gaps.mean(),
        "same_second": (gaps == 0).mean(),
    }
    found |= {f"sizes.{size:g}": (gpus == size).mean() for size in np.unique(gpus)}
    return found | {f"outcomes.{name}": (trace.outcome == code).mean() for code, name in enumerate(trace.outcomes)}


def habits(trace: Trace) -> dict[str, float]:
    """How few users submit most, how loose requests are, and what a user's last two run times are worth."""
    order = np.argsort(trace.user, kind="stable")
    user, seconds, limit = trace.user[order], np.maximum(trace.duration[order] / 1000, 1), trace.limit[order] / 1000
    again = user[2:] == user[:-2]
    last_two = (seconds[1:-1] + seconds[:-2]) / 2
    busiest = np.sort(np.bincount(user))[::-1][: len(trace.users) // 20]
    return {
        "top_5_percent": busiest.sum() / len(trace),
        "used_of_limit": float(np.median(seconds / limit)),
        "error_of_limit": float(np.abs(np.log(limit / seconds)).mean()),
        "error_of_last_two": float(np.abs(np.log(last_two / seconds[2:]))[again].mean()),
    }


def rhythm(trace: Trace) -> tuple[F64, F64]:
    """Arrivals by hour of the day and by weekday, each per hour of it that the trace spans, relative to their means."""
    hour = trace.submit // HOUR_MS
    spanned = np.arange(hour[0], hour[-1] + 1)
    found = []
    for group, seen, count in ((hour % 24, spanned % 24, 24), (_weekday(hour), _weekday(spanned), 7)):
        rate = np.bincount(group, minlength=count) / np.maximum(np.bincount(seen, minlength=count), 1)
        found.append(rate / rate.mean())
    return found[0], found[1]


def _weekday(hour: I64) -> I64:
    return (hour // 24 + 3) % 7  # 1970-01-01 was a Thursday


def published(profile: TwinProfile) -> dict[str, float]:
    """The figures of a profile under the names of ``figures``."""
    flat: dict[str, float] = {}
    for key, value in profile.published.items():
        flat |= {f"{key}.{name}": part for name, part in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def compared(name: str) -> dict[str, tuple[str, str]]:
    """Every figure that is published of a trace or of traces like it, and that of its twin, as they are written."""
    profile, made = load(name), twin(name, JOBS)
    found, printed = figures(made), published(profile)
    cells = {key.replace("_", " ").replace(".", " "): (_short(printed[key]), _short(found[key])) for key in printed}
    week = profile.arrivals.week.reshape(7, 24)
    for what, got, wanted in zip(("hour", "weekday"), rhythm(made), (week.mean(0), week.mean(1)), strict=True):
        cells[f"{what}, farthest off"] = ("0 %", f"{np.abs(got / wanted - 1).max() * 100:.0f} %")
    for (key, value), wanted_text in zip(habits(made).items(), HABITS, strict=True):
        cells[key.replace("_", " ")] = (wanted_text, _short(value))
    return cells


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rows() -> list[str]:
    """The rows of the table in docs/reference/twins.md."""
    columns = {name: compared(name) for name in names()}
    keys = dict.fromkeys(key for cells in columns.values() for key in cells)
    head = ["| published / ours | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return head + [
        f"| {key} | " + " | ".join(" / ".join(cells.get(key, ())) for cells in columns.values()) + " |" for key in keys
    ]


if __name__ == "__main__":
    sys.stdout.writelines(f"{row}\n" for row in rows())
