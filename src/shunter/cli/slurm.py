"""``shunter slurm``: a cluster that Slurm runs."""

from __future__ import annotations

import typer

from shunter.cli import slurm_import, slurm_run

app = typer.Typer(no_args_is_help=True, help="A cluster that Slurm runs: its history, its jobs.")


@app.callback()
def slurm() -> None:
    """A cluster that Slurm runs: its history, its jobs."""


app.command("import", epilog=slurm_import.EXAMPLES)(slurm_import.import_site)
app.command("run", epilog=slurm_run.EXAMPLES)(slurm_run.run)
app.command("release")(slurm_run.release)
app.command("watchdog")(slurm_run.watchdog)
