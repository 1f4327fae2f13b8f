"""What MkDocs is given besides the files in docs/: pages made of other files, links to them, and a check of assets.

``./scripts/docs`` builds the site. README, CONTRIBUTING, CHANGELOG and the examples become pages, so that a link works
on the site and in the repository alike. The page of the command line is made from the commands themselves.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FOLDERS = ("decisions", "examples")  # folders that the navigation lists page by page


# ------------------------------------------------------------------------------------------- pages made of other files


def example_files() -> list[Path]:
    """The examples, in order."""
    return sorted((ROOT / "examples").glob("[0-9]*.py"))


def outside() -> dict[str, str]:
    """Files of the repository outside docs/ that are pages of the site: path -> page."""
    pages = {name: name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff")}
    pages |= {f"examples/{path.name}": f"examples/{path.stem}.md" for path in example_files()}
    return pages | {"examples": "examples/index.md", "docs/decisions": "decisions/index.md"}


def example_page(path: Path) -> str:
    """A page with one example."""
    return f'# {title_of(path)}\n\n```python title="examples/{path.name}"\n{path.read_text(encoding="utf-8")}```\n'


def title_of(path: Path) -> str:
    """The title of an example or a page: its first line, without marks."""
    return path.read_text(encoding="utf-8").partition("\n")[0].strip('"# ').rstrip(".")


def index(heading: str, text: str, files: list[Path]) -> str:
    """A page that lists others in its folder."""
    lines = [f"- [{title_of(path)}]({path.stem}.md)" for path in files]
    return f"# {heading}\n\n{text}\n\n" + "\n".join(lines) + "\n"


def made_pages() -> dict[str, str]:
    """The pages that are not files in docs/: page -> text."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    pages = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in outside().items() if "." in source}
    pages |= {f"examples/{path.stem}.md": example_page(path) for path in example_files()}
    pages["examples/index.md"] = index("Examples", "Each is one file that runs as it is.", example_files())
    pages["decisions/index.md"] = index("Decisions", "What was decided, why, and what follows.", decisions)
    pages["reference/cli.md"] = commands_page()
    return pages


# ------------------------------------------------------------------------------------------- the command line


def commands_page() -> str:
    """Every command with its arguments and options, from the commands themselves."""
    import typer.main

    from shunter.cli.main import app

    root = typer.main.get_command(app)
    return "# Command line\n\n" + "\n".join(command_text(root, "shunter", None, 2))


def command_text(command: Any, path: str, above: Any, level: int) -> Iterator[str]:
    """One command and those below it."""
    context = command.make_context(path, [], parent=above, resilient_parsing=True)
    yield f"{'#' * level} `{path}`\n"
    yield plain(command.help or "") + "\n"
    yield f"```console\n$ {path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if rows:
        yield "| argument or option | meaning |\n|---|---|"
        yield "\n".join(f"| `{cell(name)}` | {cell(plain(text))} |" for name, text in rows) + "\n"
    if command.epilog:
        yield epilog(command.epilog)
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from command_text(inner, f"{path} {name}", context, min(level + 1, 4))


def plain(text: str) -> str:
    """A help text without the marks of rich, and with its own marks safe in Markdown."""
    text = re.sub(r"\[/?(?:bold|italic|dim)\]", "", text)
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def cell(text: str) -> str:
    """A text for the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def epilog(text: str) -> str:
    """The examples of a command as a block, other closing words as they are."""
    if not text.startswith("Examples:"):
        return plain(text) + "\n"
    lines = filter(None, text.removeprefix("Examples:").split("\n"))
    return "```bash\n" + "\n".join(lines) + "\n```\n"


# ------------------------------------------------------------------------------------------- what MkDocs calls


def on_config(config: Any) -> None:
    """List every page of a folder where the navigation names the folder."""
    pages = sorted({*made_pages(), *(f"decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("*.md"))})
    for section in config.nav:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else ():
                for title, target in entry.items():
                    if isinstance(target, str) and target.rstrip("/") in FOLDERS:
                        inside = [page for page in pages if page.startswith(target) and not page.endswith("index.md")]
                        entry[title] = [f"{target}index.md", *inside]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files in docs/."""
    for page, text in made_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links between files of the repository to their pages."""
    pages = outside()
    made_of = {made: path for path, made in pages.items() if "." in path}
    source = made_of.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def led(found: re.Match[str]) -> str:
        path, mark, anchor = found[2].partition("#")
        if not path or urlsplit(found[2]).scheme:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        made = pages.get(target) or target.removeprefix("docs/")
        if target not in pages and not target.startswith("docs/"):
            return found[0]  # MkDocs reports it
        here = posixpath.dirname(page.file.src_uri) or "."
        return found[1] + posixpath.relpath(made, here) + mark + anchor + found[3]

    return LINK.sub(led, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show a bar in the cell of a table as a bar: in code, Python-Markdown keeps the backslash that others need."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything from elsewhere."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        if foreign := [address for address in assets.found if is_foreign(address)]:
            raise PluginError(f"{page.relative_to(site)}: loads {foreign[0]}; every asset must be local")
    for sheet in site.rglob("*.css"):
        addresses = re.findall(r"url\(['\"]?([^)'\"]+)|@import\s+['\"]([^'\"]+)", sheet.read_text(encoding="utf-8"))
        if foreign := [address for pair in addresses for address in pair if is_foreign(address)]:
            raise PluginError(f"{sheet.relative_to(site)}: loads {foreign[0]}; every asset must be local")


def is_foreign(address: str) -> bool:
    """Whether an address is on another host."""
    return bool(urlsplit(address).netloc)


class Assets(HTMLParser):
    """The addresses that a browser loads with a page; a link that a reader may follow is none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag loads."""
        values = dict(attrs)
        self.found += [values.get(name) or "" for name in ("src", "data", "poster")]
        self.found += [values.get("href") or ""] if tag == "link" and values.get("rel") != "canonical" else []
