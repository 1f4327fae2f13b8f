"""The shell of a page, the library in it, and pages as files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from shunter.errors import RunError
from shunter.report.html import page
from shunter.report.html.charts import Axis, bars
from shunter.report.html.files import check_file, write_file

EVIL = "</script><img src=x onerror=alert(1)>"
HTML = files("shunter").joinpath("report", "html")


def small(title="Title", *body):
    return page.render(title, "Lead.", [page.Section("First & last", body)])


def test_what_comes_from_traces_stays_text():
    chart = bars([EVIL], {EVIL: [1]}, EVIL, Axis(EVIL))
    parts = [
        page.paragraph(EVIL), page.points([EVIL]), page.note(EVIL), page.facts([(EVIL, EVIL)]), page.code(EVIL),
        page.table(EVIL, [EVIL, EVIL], [[EVIL, page.Cell(EVIL, True, EVIL)]]), page.figure(EVIL, EVIL, chart, EVIL),
        page.choice(EVIL, {EVIL: [page.paragraph(EVIL)]}),
    ]  # fmt: skip
    text = small(EVIL, *parts)
    assert "<img" not in text
    assert text.count("<script") == len(page.SCRIPTS) + 1 == text.count("</script>")
    data = re.search(r'<script type="application/json">(.*?)</script>', text)[1]
    assert json.loads(data) == chart


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_fetched():
    text = small()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(scripts) == len(page.SCRIPTS)
    assert policy.endswith("script-src " + " ".join(f"'sha256-{one}'" for one in hashes))
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))


def test_elements_are_closed_and_ids_used_once():
    open_tags, ids = [], []

    class Check(HTMLParser):
        def handle_starttag(self, tag, attrs):
            ids.extend(value for key, value in attrs if key == "id")
            if tag not in ("meta", "wbr"):
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    figure = page.figure("T", "F.", bars(["a"], {"s": [1]}, "x", Axis("y")))
    Check().feed(small("Title", page.grid([figure]), page.table("c", ["a", "b"], [["x:y", "1"]])))
    assert open_tags == []
    assert len(ids) == len(set(ids)) > 3


def test_a_number_stays_with_its_unit():
    assert (
        page.text_of("84 % below 4.52 h, of 3 shares & more") == "84\u00a0% below 4.52\u00a0h, of 3 shares &amp; more"
    )


def test_the_library_is_what_its_manifest_says():
    manifest = json.loads(HTML.joinpath("vendor", "manifest.json").read_text())
    library = HTML.joinpath("vendor", "echarts.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == manifest["sha256"]
    assert f"ECharts {manifest['echarts']} " in library[:200].decode()
    assert len(library) < 700_000
    for part in ("echarts", "zrender", "tslib", "d3"):
        assert "copyright" in HTML.joinpath("vendor", f"LICENSE-{part}").read_text().lower()


# ------------------------------------------------------------------------------------------- files


def test_a_page_is_written_and_replaced_only_when_asked(tmp_path):
    file = tmp_path / "r.html"
    check_file(file, False)
    write_file(file, small("One"))
    with pytest.raises(RunError, match="exists already; choose another name, or replace it with --force"):
        check_file(file, False)
    check_file(file, True)
    write_file(file, small("Two"))
    assert "<h1>Two</h1>" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_nothing_but_a_page_is_replaced(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit\n")
    with pytest.raises(RunError, match="is not a page of shunter, so --force does not replace it"):
        check_file(file, True)


@pytest.mark.parametrize(("name", "says"), [("no/r.html", "there is no folder"), ("", "is a folder")])
def test_a_bad_name_is_refused(tmp_path, name, says):
    with pytest.raises(RunError, match=says):
        check_file(tmp_path / name, False)


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(RunError, match=r"r\.html: can't be written: No space left on device"):
        write_file(tmp_path / "r.html", "text")
    assert list(tmp_path.iterdir()) == []
