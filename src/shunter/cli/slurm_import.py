"""``shunter slurm import``: a site's history, machines and Slurm settings, as files for simulations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli.console import WIDTH, ForceOption, JsonOption, OnBadRowOption, note, print_json, show
from shunter.errors import SlurmError
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.slurm.importing import Imported, ImportFiles

EXAMPLES = """Examples:

shunter slurm import site   # asks Slurm: the last 90 days

shunter slurm import site --since now-180days --until now

shunter slurm import site --jobs sacct.txt --nodes nodes.txt --partitions partitions.txt --config config.txt
"""


def _file(*names: str, help: str) -> Any:  # noqa: A002
    return typer.Option(*names, metavar="FILE", help=help)


def import_site(  # noqa: PLR0913, PLR0917  one argument per option
    out: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where jobs.parquet, cluster.toml and site.toml are written.")
    ],
    jobs: Annotated[Path | None, _file("--jobs", help="sacct -a -X -P -D -o ..., or sacct --json.")] = None,
    nodes: Annotated[Path | None, _file("--nodes", help="scontrol show node, or sinfo -N -o ....")] = None,
    partitions: Annotated[Path | None, _file("--partitions", help="scontrol show partition.")] = None,
    config: Annotated[Path | None, _file("--config", help="scontrol show config, or slurm.conf.")] = None,
    topology: Annotated[Path | None, _file("--topology", help="topology.conf or topology.yaml.")] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="T", help="Start of the history, as for sacct -S.")
    ] = "now-90days",
    until: Annotated[str, typer.Option("--until", metavar="T", help="End of the history, as for sacct -E.")] = "now",
    force: ForceOption = False,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Read a cluster's accounting and configuration, and write them as a trace, a cluster and site.toml.

    It only reads, and needs an account that may see all jobs. With files it does not call Slurm: --jobs and --nodes are
    then required, the others are optional.
    """
    from shunter import traces
    from shunter.slurm import importing

    traces.check_on_bad_row(on_bad_row or "fail")
    importing.check_places(out, force)
    if any((jobs, nodes, partitions, config, topology)):
        found = importing.read_site(_sources(jobs, nodes, partitions, config, topology), on_bad_row or "fail")
    else:
        found = _from_slurm(since, until, on_bad_row or "fail")
    importing.write_site(found, out)
    for remark in (*found.trace.remarks, *found.remarks):
        note(remark)
    if json:
        print_json(_record(found, out))
        return
    show(_description(found, out))


def _from_slurm(since: str, until: str, on_bad_row: str) -> Imported:
    """What Slurm itself says."""
    import tempfile

    from shunter.slurm import importing, records
    from shunter.slurm.client import Client

    with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
        sources = records.ask(Client(timeout_s=records.PATIENCE_S), Path(folder), since, until)
        return importing.read_site(sources, on_bad_row)


def _sources(jobs: Path | None, nodes: Path | None, *others: Path | None) -> ImportFiles:
    from shunter.slurm.importing import ImportFiles

    if jobs is None or nodes is None:
        lacks = "--jobs (sacct)" if jobs is None else "--nodes (scontrol show node)"
        raise SlurmError(f"from files at least the jobs and the nodes are needed: give {lacks}, too")
    return ImportFiles(jobs, nodes, *others)


def _record(found: Imported, out: Path) -> dict[str, Any]:
    site, trace = found.site, found.trace
    return {
        "folder": str(out),
        "jobs": len(trace),
        "gpu_hours": float((trace.gpus / 1000 * trace.duration).sum() / 3.6e6),
        "cluster": {"name": found.cluster.name, "nodes": found.cluster.nodes, "gpus": found.cluster.gpus},
        "release": site.release,
        "policy": site.policy,
        "remarks": [*trace.remarks, *found.remarks],
    }


def _description(found: Imported, out: Path) -> str:
    from shunter.report.terminal.tables import broken

    record = _record(found, out)
    machines = record["cluster"]
    return (
        f"{counted(record['jobs'], 'job')} of {record['gpu_hours']:,.0f} GPU-hours,"
        f" {counted(machines['nodes'], 'node')} with {counted(machines['gpus'], 'GPU')}: written to {out}/\n"
        f"Slurm {record['release'] or '(release not known)'} is modelled as\n{broken(record['policy'], WIDTH)}\n"
        f"next: shunter advise {out}"
    )
