"""An operator starts, pauses and releases a controller of a real Slurm from the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from urllib.parse import urlencode, urlsplit

import pytest
from acting import fill, nices

from shunter.live.daemons import alive, wait

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")
pytestmark = pytest.mark.xdist_group("slurm")


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


def test_a_controller_is_started_paused_resumed_and_released_from_the_page(lab, tmp_path):
    jobs = fill(lab, 50, 10)
    command = [sys.executable, "-m", "shunter", "web", str(tmp_path), "--port", "0", "--json", "--slurm"]
    command += ["--journal", str(tmp_path / "j.db"), "--token-file", str(tmp_path / "t")]
    command += ["--operator-token-file", str(tmp_path / "o")]
    environment = os.environ | {"SLURM_CONF": str(lab.conf)}
    controller = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            about = json.loads("".join(running.stdout.readline() for _ in range(6)))
            page = Browser(about["url"], (tmp_path / "t").read_text().strip())
            page.post("/cluster/operator/enter", token=(tmp_path / "o").read_text().strip())
            assert re.search(rf"scontrol update \S*{jobs[1]} nice=-", page.do("dry-run"), re.IGNORECASE)
            assert set(nices(lab).values()) == {0}
            started = page.do("act")
            controller = int(re.search(r"process (\d+)", started)[1])
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 180)
            page.do("pause")
            assert wait(lambda: set(nices(lab).values()) == {0}, 60)
            assert "may change jobs again" in page.do("act")
            assert wait(lambda: nices(lab)[jobs[1]] < 0, 60)
            assert "1 change undone" in page.do("release")
            assert set(nices(lab).values()) == {0}
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(120)
            if controller:
                assert alive(controller)  # it goes on without the page
                os.kill(controller, signal.SIGTERM)
                assert wait(lambda: not alive(controller), 60)
