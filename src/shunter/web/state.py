"""What all requests to a page share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from fastapi import Request

from shunter.slurm.client import Client
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import OutputFormat
from shunter.web.access import Access
from shunter.web.changes import Changes
from shunter.web.cluster_view import ClusterView
from shunter.web.folder import RunsFolder
from shunter.web.listing import Listing
from shunter.web.operating import OperatorDesk
from shunter.web.settings import WebSettings
from shunter.web.streaming import Watchers
from shunter.web.tasks import Tasks


@dataclass(frozen=True)
class SharedState:
    """One page: its folder, the right to see it, what it computes and what it knows of a cluster."""

    settings: WebSettings
    access: Access
    folder: RunsFolder
    listing: Listing
    changes: Changes
    tasks: Tasks
    cluster: ClusterView
    operator: OperatorDesk
    watchers: Watchers

    @classmethod
    def of(cls, settings: WebSettings, token: str, operator_token: str = "") -> SharedState:
        """The state of a page that begins."""
        folder, live = RunsFolder.of(settings.folder), settings.live
        access = Access(token, settings.port, operator_token)
        desk = OperatorDesk(live, lambda: SlurmManager(Client(), OutputFormat.TEXT))
        kept = Listing(folder), Changes(folder), Tasks(), ClusterView(live)
        return cls(settings, access, folder, *kept, desk, Watchers())

    def page(self, part: str, title: str, **more: Any) -> dict[str, Any]:
        """The values of every whole page."""
        return {"part": part, "title": title, "form_token": self.access.form_token, **more}


def state_of(request: Request) -> SharedState:
    """The state of the page that a request is for."""
    return cast("SharedState", request.app.state.shunter)
