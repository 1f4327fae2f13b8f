"""An operator starts, pauses and releases a controller of a real Slurm from the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import pytest
from acting import fill, nices

from shunter.live.daemons import alive, wait

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")
pytestmark = pytest.mark.slurm


class Browser:
    """Sends forms as a browser does, with its cookies and the page's form token."""

    def __init__(self, address: str, token: str) -> None:
        self.host, self.cookies = urlsplit(address).netloc, ""
        self.form_token = ""
        self.post("/enter", token=token)
        (self.form_token,) = re.findall(r'data-form-token="(\w+)"', self.ask("GET", "/cluster"))

    def ask(self, method: str, path: str, **fields: str) -> str:
        client = http.client.HTTPConnection(self.host, timeout=300)
        headers = {"Cookie": self.cookies, "X-Form-Token": self.form_token, "Origin": f"http://{self.host}"}
        client.request(method, path, urlencode(fields) if fields else None, headers)
        found = client.getresponse()
        cookies = [value.partition(";")[0] for name, value in found.getheaders() if name.lower() == "set-cookie"]
        self.cookies = "; ".join(filter(None, [self.cookies, *cookies]))
        text = found.read().decode()
        client.close()
        return text

    def post(self, path: str, **fields: str) -> str:
        return self.ask("POST", path, **fields)

    def do(self, action: str) -> str:
        about = {"policy": "sjf:estimate=limit", "interval": "1"}
        return self.post("/cluster/operator/do", action=action, confirmed=action, **about)


@contextmanager
def served(lab, folder):
    """``shunter web`` of a real cluster, with its address."""
    command = [sys.executable, "-m", "shunter", "web", str(folder), "--port", "0", "--json", "--slurm"]
    command += ["--journal", str(folder / "j.db"), "--token-file", str(folder / "t")]
    command += ["--operator-token-file", str(folder / "o")]
    environment = os.environ | {"SLURM_CONF": str(lab.conf)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield json.loads("".join(running.stdout.readline() for _ in range(6)))["url"]
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(180)


def end(controller: int) -> None:
    """It goes on without the page until it is ended."""
    if controller:
        assert alive(controller)
        os.kill(controller, signal.SIGTERM)
        assert wait(lambda: not alive(controller), 180)


def test_a_controller_is_started_paused_resumed_and_released_from_the_page(lab, tmp_path):
    jobs, controller = fill(lab, 50, 10), 0
    try:
        with served(lab, tmp_path) as address:
            page = Browser(address, (tmp_path / "t").read_text().strip())
            page.post("/cluster/operator/enter", token=(tmp_path / "o").read_text().strip())
            assert re.search(rf"scontrol update \S*{jobs[1]} nice=-", page.do("dry-run"), re.IGNORECASE)
            assert set(nices(lab).values()) == {0}
            started = page.do("act")
            controller = int(re.search(r"process (\d+)", started)[1])
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 180)
            page.do("pause")
            assert wait(lambda: set(nices(lab).values()) == {0}, 180)
            assert "may change jobs again" in page.do("act")
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 180)
            assert "1 change undone" in page.do("release")
            assert set(nices(lab).values()) == {0}
    finally:
        end(controller)


def confirm(page, action: str) -> None:
    """Click on an action, and confirm it."""
    page.get_by_role("button", name=action, exact=True).click()
    page.get_by_role("button", name=f"Confirm {action.lower()}").click()


def test_an_operator_does_everything_by_clicks(lab, tmp_path, browser):
    jobs, controller = fill(lab, 50, 10), 0
    context = browser.new_context()
    context.set_default_timeout(180_000)
    try:
        with served(lab, tmp_path) as address:
            page = context.new_page()
            page.goto(f"{address}/enter#token={(tmp_path / 't').read_text().strip()}")
            page.wait_for_url("**/runs")
            page.get_by_role("link", name="Cluster").click()
            page.get_by_text("For operators").click()
            page.get_by_label("Operators' token").fill((tmp_path / "o").read_text().strip())
            page.get_by_role("button", name="Enter").click()
            page.locator("#operator-form [name=policy]").fill("sjf:estimate=limit")
            page.get_by_label("Seconds between rounds").fill("1")
            for look in ("Watch", "Dry-run"):
                confirm(page, look)
                page.wait_for_selector(f".done-operation >> text={look}")
            assert f"{jobs[1]} nice=-" in page.locator(".done-operation").inner_text().lower()
            page.get_by_role("button", name="Act", exact=True).click()
            assert "--mode act" in page.locator(".confirm code").inner_text()
            assert set(nices(lab).values()) == {0}  # nothing before it is confirmed
            page.get_by_role("button", name="Confirm act").click()
            page.wait_for_selector(".done-operation >> text=A controller was started")
            controller = int(re.search(r"process (\d+)", page.locator(".done-operation").inner_text())[1])
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 180)
            confirm(page, "Pause")
            assert wait(lambda: set(nices(lab).values()) == {0}, 180)
            confirm(page, "Act")
            page.wait_for_selector(".done-operation >> text=may change jobs again")
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 180)
            confirm(page, "Release")
            page.wait_for_selector(".done-operation >> text=1 change undone")
            assert set(nices(lab).values()) == {0}
            page.wait_for_selector("#controller >> text=the policy puts it at place 1")
    finally:
        context.close()
        end(controller)
