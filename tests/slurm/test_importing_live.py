"""Import from a Slurm that is asked itself: what was submitted comes back, whatever the user's environment says."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter import clusters
from shunter.cli.main import app
from shunter.errors import LiveError
from shunter.slurm.client import Client
from shunter.slurm.records import ask
from shunter.slurm.site import read as read_settings
from shunter.traces import read

EVIL = "x|y\n999\x1froot;$(touch /tmp/evil)"


def ended(path, begun):
    """The rows of the jobs that were submitted since and have ended."""
    trace = read(path)
    over = [trace.outcomes[code] in ("completed", "failed") for code in trace.outcome]
    return {job: row for row, job in enumerate(trace.job_id) if over[row] and trace.submit[row] >= 1000 * begun}


def test_what_was_submitted_comes_back(lab_with_database, tmp_path, monkeypatch):
    lab = lab_with_database
    begun = int(time.time())
    plain = lab.submit(
        "--gres=gpu:k80:2", "--time=7", "--cpus-per-task=3", "--job-name=plain", "--account=red", script="sleep 2"
    )
    array = lab.submit("--array=0-1", "--gres=gpu:1", script="sleep 1", user="daemon")
    named = lab.submit("--gres=gpu:m40:1", f"--job-name={EVIL}", script="true", user="nobody")
    failed = lab.submit("--gres=gpu:p100:4", "--nodes=2", script="exit 3")
    nothing = lab.submit(script="true")
    for job in (plain, array, named, failed, nothing):
        lab.wait_job(job, "COMPLETED", "FAILED")
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    for name in ("SACCT_FORMAT", "SLURM_TIME_FORMAT", "SACCT_FEDERATION", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "user%30")
    wanted = {str(plain), f"{array}_0", f"{array}_1", str(named), str(failed)}
    options = ("--since", "now-1hours", "--until", "now+1hours", "--json", "--force")
    for _ in range(300):  # accounting comes a little later than the end of a job
        done = CliRunner().invoke(app, ["slurm", "import", str(tmp_path / "site"), *options], prog_name="shunter")
        jobs = ended(tmp_path / "site" / "jobs.parquet", begun) if done.exit_code == 0 else {}
        if wanted <= set(jobs):
            break
        time.sleep(0.5)
    assert done.exit_code == 0, done.stderr
    trace = read(tmp_path / "site" / "jobs.parquet")

    def told(job, column):
        value = int(getattr(trace, column)[jobs[str(job)]])
        scale = trace.columns()[column].scale
        return value / scale if scale else (*getattr(trace, column + "s"), None)[value]

    assert set(jobs) == wanted
    assert [told(plain, key) for key in ("gpus", "gpu_type", "limit", "cpus", "user", "account", "vc")] == [
        2, "k80", 420, 3, "root", "red", "main",
    ]  # fmt: skip
    begin, end = (np.datetime64(lab.job(plain)[key]).astype(int) for key in ("StartTime", "EndTime"))
    assert told(plain, "duration") == end - begin >= 2
    assert [told(f"{array}_1", key) for key in ("gpus", "gpu_type", "user", "account")] == [1, None, "daemon", "blue"]
    assert [told(failed, key) for key in ("gpus", "outcome")] == [8, "failed"]
    assert "touch" in told(named, "job_name")
    assert told(named, "user") == "nobody"
    cluster = clusters.load(str(tmp_path / "site" / "cluster.toml"))
    assert (cluster.nodes, cluster.gpus, set(cluster.gpu_types)) == (9, 22, {"p100", "k80", "m40"})
    assert read_settings(tmp_path / "site" / "site.toml").policy == json.loads(done.stdout)["policy"]


def test_a_time_without_jobs_is_reported(lab_with_database, tmp_path):
    with pytest.raises(LiveError, match="sacct reports no job from 2001-01-01"):
        ask(Client(lab_with_database.conf), tmp_path, "2001-01-01", "2001-02-01")


def test_without_slurm_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["slurm", "import", str(tmp_path / "site")], prog_name="shunter")
    assert done.exit_code == 2
    assert "'sacct' must be on the PATH" in " ".join(done.stderr.split())


def test_a_name_can_not_pretend_to_be_a_job():
    class Fake:
        def run(self, program, *arguments, **more):
            if program != "sacct":
                return ""
            mark = next(text for text in arguments if text.startswith("--delimiter=")).partition("=")[2]
            fields = next(text for text in arguments if text.startswith("--format=")).partition("=")[2].split(",")
            head, row = mark.join(fields), mark.join(["7", *["a"] * (len(fields) - 2), "n\n8|root\x1fx\nend"])
            return f"{head}\n{row}\n"

    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        found = ask(Fake(), Path(folder), "a", "b").jobs.read_text().splitlines()
    assert len(found) == 2
    assert found[1].endswith("n 8|root x end")
