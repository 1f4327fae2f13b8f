"""Judge policies by a number of your own, and show it in a section of the report.

In a file of its own, ``mylab/measures.py``, both work on the command line too: ``--measure`` takes
``mylab.measures.started_within_an_hour``, and ``--section``, beside ``--report``, takes ``mylab.measures.by_user``.
"""

import tempfile
from collections.abc import Sequence

import polars as pl

import shunter
from shunter.report.html.page import Section, paragraph, table


def started_within_an_hour(run: shunter.Run) -> float:
    """The share of jobs that waited at most an hour."""
    return float(run.jobs.select((pl.col("wait") <= 3600).mean()).item())


def by_user(runs: Sequence[shunter.Run]) -> Section:
    """The mean wait of the three users with the most jobs, under each policy."""
    users = runs[0].jobs["user"].value_counts(sort=True)["user"][:3].to_list()
    hours = pl.col("wait").mean() / 3600
    lines = [
        [user, *(f"{run.jobs.filter(pl.col('user') == user).select(hours).item():.2f} h" for run in runs)]
        for user in users
    ]
    policies = [run.experiment.policy for run in runs]
    return Section(
        "Waits by user", [paragraph("The three users with the most jobs."), table("Wait", ["user", *policies], lines)]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        comparison = shunter.compare(
            "synthetic:jobs=300,gpus=32,load=1.1", "4x8", ["fifo", "saf:backfill=easy"], workers=1,
            measures=[started_within_an_hour], report=f"{folder}/page.html", sections=[by_user],
        )  # fmt: skip
    for row in comparison.policies:
        print(f"{row['policy']:>18}: {row['measures']['started_within_an_hour']:.0%} start within an hour")
