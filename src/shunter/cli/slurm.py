"""``shunter slurm``: work with a Slurm cluster."""

from __future__ import annotations

import typer

from shunter.cli import slurm_asking, slurm_audit, slurm_doctor, slurm_import, slurm_lab, slurm_run

app = typer.Typer(no_args_is_help=True, help="Work with a Slurm cluster: history, waiting jobs, controller.")


@app.callback()
def slurm() -> None:
    """Work with a Slurm cluster: history, waiting jobs, controller."""


app.command("import", epilog=slurm_import.EXAMPLES)(slurm_import.import_site)
app.command("run", epilog=slurm_run.EXAMPLES)(slurm_run.run)
app.command("release")(slurm_run.release)
app.command("resume")(slurm_run.resume)
app.command("lab", epilog=slurm_lab.EXAMPLES)(slurm_lab.lab)
slurm_asking.register(app)
app.command("doctor", epilog=slurm_doctor.EXAMPLES)(slurm_doctor.doctor)
app.command("audit", epilog=slurm_audit.EXAMPLES)(slurm_audit.audit)
app.command("watchdog")(slurm_audit.watchdog)
app.command("dashboard")(slurm_audit.dashboard)
