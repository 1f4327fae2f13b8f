"""A sweep whose workers are Slurm jobs, with dask-jobqueue: run this where ``sbatch`` works.

All connections have TLS. The certificate and its key are made here, in a folder that all nodes see; Dask finds them by
its configuration, which jobs inherit as environment variables. Arguments go to ``shunter sweep``.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("SHARED", Path.home())) / "sweep-on-slurm"  # all nodes must see it
OPENSSL = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=sweep")


def use_tls(folder: Path) -> None:
    """Make a certificate, unless there is one, and set Dask's configuration for this process and all that it starts."""
    folder.mkdir(mode=0o700, exist_ok=True)
    cert, key = folder / "cert.pem", folder / "key.pem"
    if not key.exists():
        subprocess.run([*OPENSSL, "-keyout", str(key), "-out", str(cert)], check=True, stderr=subprocess.DEVNULL)
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    os.environ["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "true"
    os.environ[f"{tls}CA_FILE"] = str(cert)
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        os.environ.update({f"{tls}{role}__CERT": str(cert), f"{tls}{role}__KEY": str(key)})


def main() -> None:
    """Start a scheduler here and workers as jobs; run the sweep with them."""
    use_tls(FOLDER)
    from dask_jobqueue import SLURMCluster  # only now: Dask reads its configuration when it is imported

    job = {"cores": 1, "processes": 1, "memory": "2GB", "walltime": "01:00:00"}  # one worker with one thread per job
    with SLURMCluster(**job, protocol="tls://", local_directory="/tmp", log_directory=str(FOLDER / "logs")) as cluster:
        cluster.scale(jobs=4)
        cluster.wait_for_workers(1)  # as long as they wait in the queue
        command = [sys.executable, "-m", "shunter", "sweep", *sys.argv[1:], "--dask", cluster.scheduler_address]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
