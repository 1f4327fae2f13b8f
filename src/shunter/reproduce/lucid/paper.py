"""What is printed about Lucid."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.reproduce.claims import Claim
from shunter.reproduce.lucid.design import DATA, EASY, LUCID, TIRESIAS
from shunter.reproduce.trials import Scheduler
from shunter.sharing.published import ACCURACY

TITLE = "Lucid: A non-intrusive, scalable and interpretable scheduler for deep learning training jobs"
MOST = 1.3
MODEL = {"predicted r2": 0.41, "predicted mape": 0.465}
SCORES = ACCURACY


def printed(scheduler: Scheduler, measure: str) -> float | None:
    """The printed figure, if there is one."""
    return MODEL.get(measure) if scheduler == LUCID else None


def _claims() -> Iterator[Claim]:
    for data in DATA:
        yield Claim(data, "jct_mean_s", TIRESIAS, LUCID, MOST, upto=True, source="abstract")
        yield Claim(data, "jct_mean_s", EASY, LUCID, source="text")


CLAIMS = tuple(_claims())
