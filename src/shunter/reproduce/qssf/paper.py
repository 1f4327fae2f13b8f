"""What is printed: the output of the artifact's notebook on Philly, and the claim of the abstract."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.reproduce.claims import Claim
from shunter.reproduce.qssf.design import FIFO, NOISY, QSSF, SJF, SRTF
from shunter.reproduce.trials import Scheduler

TITLE = "Characterization and prediction of deep learning workloads in large-scale GPU datacenters"
ON_PHILLY = ("philly", "philly-fewer")
ORDER = (FIFO, SJF, SRTF, NOISY)  # the artifact's QSSF on Philly uses the truth with noise, not a predictor
PRINTED = {"jct_mean_s": (86072, 34272, 30683, 37324), "wait_mean_s": (56531, 4731, 1138, 7783)}
BY_VC = {  # mean JCT
    "6214e9": (97501, 23337, 19532, 26022),
    "ee9e8c": (243144, 130493, 122609, 132367),  # not in the public file
    "0e4a51": (233539, 168747, 146023, 196886),
}
MOST = 6.5  # on some cluster of Helios, which of them is not known to us
NOTEBOOK, ABSTRACT = "artifact, result_plot.ipynb", "abstract"


def printed(data: str, scheduler: Scheduler, measure: str, vc: str = "") -> float | None:
    """The printed figure, if there is one."""
    if data not in ON_PHILLY or scheduler not in ORDER:
        return None
    figures = (BY_VC.get(vc) if measure == "jct_mean_s" else None) if vc else PRINTED.get(measure)
    return float(figures[ORDER.index(scheduler)]) if figures else None


def _claims() -> Iterator[Claim]:
    for data in ON_PHILLY:
        for measure, figures in PRINTED.items():
            for scheduler, figure in zip(ORDER[1:], figures[1:], strict=True):
                yield Claim(data, measure, FIFO, scheduler, figures[0] / figure, source=NOTEBOOK)
        for vc, figures in BY_VC.items():
            yield Claim(data, "jct_mean_s", FIFO, NOISY, figures[0] / figures[-1], vc, source=NOTEBOOK)
    yield Claim("venus", "jct_mean_s", FIFO, QSSF, MOST, upto=True, source=ABSTRACT)


CLAIMS = tuple(_claims())
