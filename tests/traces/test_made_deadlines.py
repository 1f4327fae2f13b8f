"""Made-up deadlines: the jobs stay as they are, the shares are kept, and nothing that is known is overwritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.errors import TraceError
from shunter.model import GPU
from shunter.setup import read_trace
from shunter.traces.made_deadlines import GRACE_S

PLAIN = "synthetic:jobs=2000,gpus=64,seed=3"


def test_shares_of_the_jobs_have_deadlines_and_ranges() -> None:
    plain, made = read_trace(PLAIN), read_trace(f"{PLAIN},deadlines=0.3,elastic=0.6")
    for name in ("submit", "duration", "gpus", "user"):
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name))
    dated, resized = made.deadline > 0, made.max_gpus > 0
    assert dated.mean() == pytest.approx(0.3, abs=0.05)
    assert resized.mean() == pytest.approx(0.6, abs=0.05)
    asked = made.gpus // GPU
    assert (made.min_gpus <= asked)[resized].all()
    assert (made.max_gpus == 2 * asked)[resized].all()
    assert (made.declared >= made.duration).all()
    assert (made.declared <= 2 * made.duration + 1).all()
    after = (made.deadline - GRACE_S * 1000) / made.declared
    assert after[dated].min() >= 0.65
    assert after[dated].max() <= 2.45


def test_equal_seeds_give_equal_deadlines() -> None:
    one, two, other = (read_trace(f"synthetic:jobs=50,seed={seed},deadlines=1") for seed in (1, 1, 2))
    assert one.digest == two.digest
    assert not np.array_equal(one.deadline / one.declared, other.deadline / other.declared)


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan"])
def test_a_share_is_between_none_and_all(share: str) -> None:
    with pytest.raises(TraceError, match="a share of the jobs"):
        read_trace(f"synthetic:jobs=5,deadlines={share}")


def test_jobs_of_a_file_get_deadlines_once(tmp_path: Path) -> None:
    jobs, dated = tmp_path / "jobs.csv", tmp_path / "dated.csv"
    jobs.write_text("job_id,submit,duration,gpus\na,0,60,1\nb,5,60,4\n")

    def synth(source: Path, out: Path):
        return CliRunner().invoke(app, ["trace", "synth", str(out), "--from", str(source), "--deadlines", "1"])

    assert synth(jobs, dated).exit_code == 0
    assert (read_trace(str(dated)).deadline > 0).all()
    again = synth(dated, tmp_path / "again.csv")
    assert again.exit_code == 2
    assert "of its own; nothing is made up" in " ".join(again.output.split())
    assert not (tmp_path / "again.csv").exists()
