"""The documentation site: pages made of other files, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site():
    pytest.importorskip("mkdocs", reason="no MkDocs; ./scripts/docs installs it")
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("page.html", '<script src="assets/a.js"></script><a href="https://example.org">follow me</a>', False),
        ("page.html", '<script src="https://example.org/a.js"></script>', True),
        ("page.html", '<link rel="stylesheet" href="//example.org/a.css">', True),
        ("page.html", '<img src="http://example.org/a.png">', True),
        ("sheet.css", "a { background: url(data:image/png;base64,AAAA) }", False),
        ("sheet.css", "@font-face { src: url(https://example.org/a.woff2) }", True),
        ("sheet.css", "@import 'https://example.org/a.css';", True),
    ],
)
def test_an_asset_from_elsewhere_is_refused(site, tmp_path, file, text, refused):
    (tmp_path / file).write_text(text)
    config = SimpleNamespace(site_dir=str(tmp_path))
    if refused:
        with pytest.raises(site.PluginError, match=f"{file}: loads .*example.org.*must be local"):
            site.on_post_build(config)
    else:
        site.on_post_build(config)


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        ("README.md", "docs/start.md#1-install", "start.md#1-install"),
        ("README.md", "docs/decisions/", "decisions/index.md"),
        ("start.md", "../examples/", "examples/index.md"),
        ("reference/formats.md", "../../examples/06_your_own_reader.py", "../examples/06_your_own_reader.md"),
        ("reference/policies.md", "network.md", "network.md"),
        ("start.md", "https://example.org/docs/start.md", "https://example.org/docs/start.md"),
        ("start.md", "../setup.py", "../setup.py"),
    ],
)
def test_a_link_works_in_the_repository_and_on_the_site(site, page, link, leads):
    made = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert site.on_page_markdown(f"see [it]({link}).", made) == f"see [it]({leads})."


def test_every_command_and_option_is_on_the_page(site):
    from typer.main import get_command

    from shunter.cli.main import app

    page = site.commands_page()
    slurm = get_command(app).commands["slurm"].commands
    assert {f"`shunter slurm {name}`" for name in slurm} <= set(re.findall(r"^#+ (.*)$", page, re.MULTILINE))
    part = page.partition("### `shunter compare`")[2].partition("\n### ")[0]
    for parameter in get_command(app).commands["compare"].params:
        assert parameter.opts[-1] in part or parameter.param_type_name == "argument" or parameter.hidden
