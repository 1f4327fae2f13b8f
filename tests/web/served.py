"""Pages that are served in this process, and a client for them."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from shunter.live.snapshot import LiveJob

TOKEN = "t0ken-" * 8
TRACE = "synthetic:jobs=120,seed=1,gpus=16,load=1.3"
HOUR, NOW = 3_600_000, 1_800_000_000_000


def waiting(number: int, **about) -> LiveJob:
    given = {"user": "ann", "partition": "main", "limit": HOUR, "gpus": 4, "submit": NOW - HOUR, "eligible": NOW - HOUR}
    return LiveJob(
        str(number), str(number), **({"state": "PENDING", "reason": "Priority", "priority": 100} | given | about)
    )


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self):
        return json.loads(self.text)


@dataclass
class Served:
    folder: Path
    port: int
    state: Any  # what all requests share

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """Send exactly this; only a Host header is added where none is given."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            client.request(method, path, body, named)
            found = client.getresponse()
            return Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read().decode())
        finally:
            client.close()

    def get(self, path: str, **query: str) -> Reply:
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path, Authorization=f"Bearer {TOKEN}")

    def post(self, path: str, fields=()) -> Reply:
        return self.ask("POST", path, urlencode(fields).encode(), Authorization=f"Bearer {TOKEN}")

    def post_json(self, path: str, body) -> Reply:
        about = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        return self.ask("POST", path, json.dumps(body).encode(), **about)
