"""Who may use the page: token, cookie, forms of its own, host names, sizes, and no way out of the folder."""

from __future__ import annotations

import os
import re
import stat

import pytest
from served import TOKEN

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

from shunter.errors import RunError
from shunter.web.access import Access, token_in
from shunter.web.folder import RunsFolder, check_name

PAGES = (
    "/runs",
    "/what-if",
    "/learn",
    "/cluster",
    "/api/docs",
    "/api/runs",
    "/api/openapi.json",
    "/runs/report?run=sjf",
)


@pytest.fixture(scope="module")
def served(serve, filled):
    return serve(filled, upload_mib=1, names=("shunter.example.org",))


@pytest.fixture(scope="module")
def cookie(served):
    found = served.ask("POST", "/enter", f"token={TOKEN}".encode())
    return found.headers["set-cookie"].partition(";")[0]


# -- the token


def test_a_token_is_made_for_its_owner_alone_and_found_again(tmp_path):
    made = token_in(tmp_path / "token")
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert len(made) >= 32
    assert token_in(tmp_path / "token") == made


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_refused(tmp_path, mode):
    token_in(tmp_path / "token")
    (tmp_path / "token").chmod(mode)
    with pytest.raises(RunError, match="only its owner may read"):
        token_in(tmp_path / "token")


def test_a_token_behind_a_link_or_too_short_is_refused(tmp_path):
    token_in(tmp_path / "token")
    os.symlink(tmp_path / "token", tmp_path / "link")
    with pytest.raises(RunError, match="can't be read"):
        token_in(tmp_path / "link")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "short").chmod(0o600)
    with pytest.raises(RunError, match="32 letters"):
        token_in(tmp_path / "short")


def test_the_cookie_does_not_hold_the_token_and_is_strict(served):
    found = served.ask("POST", "/enter", f"token={TOKEN}".encode())
    assert found.status == 303
    assert TOKEN not in found.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(found.headers["set-cookie"].split("; "))
    assert served.ask("POST", "/enter", b"token=wrong").status == 403


def test_behind_tls_the_cookie_is_secure(served):
    found = served.ask("POST", "/enter", f"token={TOKEN}".encode(), X_Forwarded_Proto="https")
    assert "Secure" in found.headers["set-cookie"].split("; ")


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_shown_without_the_token(served, cookie, path):
    assert served.ask("GET", path).status == 401
    assert served.ask("GET", path, Authorization="Bearer " + "x" * 40).status == 401
    assert served.ask("GET", path, Cookie=cookie[:-1] + "0").status == 401
    sent = served.ask("GET", path, Accept="text/html")
    assert (sent.status, sent.headers["location"]) == (303, "/enter")
    assert served.ask("GET", path, Cookie=cookie).status == 200
    assert served.get(path).status == 200


def test_a_broken_cookie_opens_nothing():
    access = Access(TOKEN, 1)
    assert access.admits(f"{access.cookie_name}={access.cookie}", "")
    for wrong in ("", "=", "shunter-1", f"shunter-2={access.cookie}", f"shunter-1={TOKEN}", "\udcff=\udcff"):
        assert not access.admits(wrong, "")


# -- other sites


def test_another_host_name_is_not_answered(served):
    for name in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", ""):
        assert served.ask("GET", "/runs", Host=name, Authorization=f"Bearer {TOKEN}").status == 421
    assert served.ask("GET", "/runs", Host="shunter.example.org", Authorization=f"Bearer {TOKEN}").status == 200


def test_no_other_site_frames_or_reads_an_answer_and_no_cache_keeps_it(served):
    task = served.state.tasks.begin(lambda task: None)
    found = [served.get(path) for path in ("/runs", "/api/runs", f"/what-if/tasks/{task.id}/events", "/nothing")]
    found += [served.ask("GET", "/runs"), served.ask("GET", "/enter"), served.ask("GET", "/runs", Host="evil")]
    found += [served.get("/runs/report?run=nothing"), served.ask("POST", "/enter", b"x" * 2**21)]
    assert [one.status for one in found] == [200, 200, 200, 404, 401, 200, 421, 422, 413]
    assets = [served.ask("GET", path) for path in ("/static/site.css", "/static/report/report.css")]
    for one in found + assets:
        assert "frame-ancestors 'none'" in one.headers["content-security-policy"]
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in one.headers
    assert {one.headers["cache-control"] for one in found} == {"no-store"}
    assert {one.headers["cache-control"] for one in assets} == {"max-age=3600"}


def test_a_form_needs_the_token_of_the_page(served, cookie):
    (form_token,) = re.findall(r'data-form-token="(\w+)"', served.get("/runs").text)
    fields = b"run=sjf&name=sjf"
    assert served.ask("POST", "/runs/rename", fields, Cookie=cookie).status == 403
    assert served.ask("POST", "/runs/rename", fields, Cookie=cookie, X_Form_Token="0" * 64).status == 403
    own = served.ask("POST", "/runs/rename", fields, Cookie=cookie, X_Form_Token=form_token)
    assert own.status == 422
    assert "exists already" in own.text


@pytest.mark.parametrize(
    "header", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_a_form_of_another_site_is_refused_whatever_it_knows(served, header):
    access = Access(TOKEN, served.port)
    known = {"Cookie": f"{access.cookie_name}={access.cookie}", "X-Form-Token": access.form_token}
    assert served.ask("POST", "/runs/delete", b"run=sjf", **known, **header).status == 403
    proxied = {"Authorization": f"Bearer {TOKEN}", **header}
    assert served.ask("POST", "/runs/delete", b"run=sjf", **proxied).status == 403


def test_a_proxy_that_adds_the_token_does_not_replace_that_of_the_form(served):
    sent = {"Authorization": f"Bearer {TOKEN}", "Origin": served.url, "Sec-Fetch-Site": "same-origin"}
    assert served.ask("POST", "/runs/delete", b"run=sjf", **sent).status == 403


def test_no_address_changes_anything_by_get(served):
    changing = (
        "/runs/rename",
        "/runs/delete",
        "/runs/undo",
        "/runs/empty",
        "/what-if/run",
        "/what-if/traces",
        "/api/simulate",
    )
    for path in changing:
        assert served.get(path, run="sjf", name="other").status == 405
    assert (served.folder / "sjf").is_dir()


def test_no_inline_script_is_allowed_and_none_is_there(served):
    for path in PAGES[:5]:
        found = served.get(path)
        policy = dict(part.split(" ", 1) for part in found.headers["content-security-policy"].split("; "))
        assert policy["script-src"] == "'self'"
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert found.headers["x-content-type-options"] == "nosniff"
        inline = re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", found.text)
        assert inline == []
        assert not re.search(r"\son\w+\s*=\s*[\"']", found.text)


# -- sizes


def test_a_body_that_is_too_large_is_refused_whatever_its_header_says(served):
    large = b"x" * (2 * 2**20)
    about = {"Authorization": f"Bearer {TOKEN}"}
    assert served.ask("POST", "/runs/undo", large, **about).status == 413
    assert served.ask("PUT", "/what-if/traces?name=a.csv", large, **about).status == 413
    pieces = iter([b"x" * 2**20, b"x" * 2**20])  # sent in chunks, without a length
    assert served.ask("PUT", "/what-if/traces?name=a.csv", pieces, **about).status == 413
    assert [path.name for path in (served.folder / "traces").glob("*")] == []


# -- the folder


@pytest.mark.parametrize(
    "name", ["..", "../x", "/etc/passwd", "a/../../x", "", ".", ".hidden", "a/.b", "a\0b", "link", "link/run"]
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    inside, outside = tmp_path / "in", tmp_path / "out"
    (outside / "run").mkdir(parents=True)
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    with pytest.raises(RunError, match="no such name"):
        RunsFolder.of(inside).path(name)


@pytest.mark.parametrize("path", ["/runs/report", "/runs/steps", "/api/summary", "/api/explain", "/what-if/trace"])
def test_no_address_reads_outside_of_the_folder(served, path):
    for name in ("../sjf", "/etc/passwd", "both/../../x"):
        found = served.get(path, run=name, trace=name, job="1")
        assert found.status == 422
        assert "root:" not in found.text
        assert str(served.folder) not in found.text


@pytest.mark.parametrize("name", ["", ".x", "a/b", "..", "a\nb", "x" * 101, "<b>", " a"])
def test_a_new_name_is_one_plain_name(name):
    with pytest.raises(RunError, match="a name has"):
        check_name(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("p0.policy", "os.path"),
        ("p0.set.estimate", "os.path.join"),
        ("p0.set.bound", "0.5,placement=os.path"),
        ("trace", "/etc/passwd"),
        ("cluster", "/etc/passwd"),
        ("cluster", "../x.toml"),
    ],
)
def test_a_form_names_no_module_and_no_file_elsewhere(served, field, value):
    fields = {"slot": "p0", "p0.policy": "sjf", "trace": "jobs.csv", "cluster": "2x4", field: value}
    found = served.post("/what-if/run", fields)
    assert found.status == 422
    body = {"trace": fields["trace"], "cluster": fields["cluster"], "policies": ["sjf:estimate=os.path.join"]}
    assert served.post_json("/api/simulate", body).status == 422


def test_hostile_names_are_shown_as_text(serve, tmp_path):
    import shunter

    bad = "<img src=x onerror=alert(1)>"
    shunter.simulate("synthetic:jobs=20,gpus=8", "1x8", "fifo").save(tmp_path / bad)
    (tmp_path / f"{bad}.csv").write_text("job_id,submit,duration,gpus\n<script>,0,10,1\n")
    page = serve(tmp_path)
    for path in ("/runs", "/what-if"):
        shown = page.get(path).text
        assert "<img src=x" not in shown
        assert "&lt;img src=x" in shown
    assert "<img src=x" not in page.get("/runs/report", run=bad).text
    assert "<script>," not in page.get("/runs/steps", run=bad).text
