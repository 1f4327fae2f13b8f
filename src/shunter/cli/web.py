"""``shunter web``: the page for a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.compile_kernels import engine_is_compiled
from shunter.cli.console import (
    ColumnsOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    note,
    print_json,
    read_history,
    with_columns,
)
from shunter.extras import require

if TYPE_CHECKING:
    from shunter.web.serving import Address

EXAMPLES = """Examples:

shunter web runs   # prints the address to open

shunter web runs --slurm --journal shunter-slurm.db   # with the live cluster

shunter web runs --slurm --journal shunter-slurm.db --operator-token-file operator-token   # operators act here

shunter web runs --allow-host shunter.example.org --user-header X-Remote-User   # behind a proxy
"""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def web(  # noqa: PLR0913, PLR0917 one argument per option
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder with runs.")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Port; 0: any that is free.")] = 8642,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to serve on.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Answer to this host name too, as a proxy sends it."),
    ] = None,
    user_header: Annotated[
        str, typer.Option(metavar="NAME", help="Header in which a proxy names the user, for 'my jobs'.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token; made if it is not there.")
    ] = None,
    max_upload: Annotated[int, typer.Option(min=1, metavar="MIB", help="Largest trace that can be dropped.")] = 256,
    slurm: Annotated[bool, typer.Option("--slurm", help="Show the live cluster: poll Slurm, change nothing.")] = False,
    snapshot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Show a recorded snapshot instead of polling Slurm.")
    ] = None,
    journal: Annotated[Path | None, typer.Option(metavar="FILE", help="The journal of 'shunter slurm run'.")] = None,
    site: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Slurm's rules, as 'shunter slurm import' writes them.")
    ] = None,
    history: Annotated[Path | None, typer.Option(metavar="TRACE", help="Past jobs, for better forecasts.")] = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    operator_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the operators' token; with it they can run a controller here."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Serve a page for a browser: runs, what-ifs, policies, and a live cluster. It is for you alone."""
    for module in ("fastapi", "uvicorn", "jinja2"):
        require(module, "shunter web")

    from shunter.errors import RunError
    from shunter.experiment import TraceSource
    from shunter.web.serving import serve
    from shunter.web.settings import LiveSources, WebSettings

    if slurm and snapshot is not None:
        raise RunError("--slurm polls the cluster and --snapshot shows a recorded one; leave one out")
    if operator_token_file is not None and not (slurm and journal is not None):
        raise RunError("--operator-token-file needs --slurm and --journal: every action is noted in the journal")
    read_history(history, format, columns, on_bad_row)  # reports what is wrong in it here, and not on the page
    form = with_columns(format, columns) or ""
    past = TraceSource(str(history.resolve()), "", form, on_bad_row or "fail") if history else None
    live = LiveSources(slurm, snapshot, journal, site, past)
    names = tuple(allow_host or ())
    settings = WebSettings(folder, host, port, names, user_header, max_upload, live)
    if host not in LOOPBACK:
        note(
            "others can reach this page; only the token keeps them out, and it travels unencrypted", "warning", "yellow"
        )
    serve(settings, token_file, lambda address: _ready(address, json), operator_token_file)


def _ready(address: Address, json: bool) -> None:
    """Print where the page is, at once: it may be served for weeks."""
    if json:
        operator = address.operator_token_file
        print_json({
            "url": address.url, "open": address.entrance, "token_file": str(address.token_file),
            "operator_token_file": str(operator) if operator is not None else None,
        })  # fmt: skip
    else:
        typer.echo(address.entrance)
        note(f"open this address in a browser; the token is in {address.token_file}; stop with Ctrl-C", "web")
        if address.operator_token_file is not None:
            note(f"operators' token: {address.operator_token_file}", "web")
        if not engine_is_compiled():
            note("kernels are compiled in the background, about 30 s; the first run on the page waits for them", "web")
    sys.stdout.flush()
