"""What all requests to a page share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from fastapi import Request

from shunter.web.access import Access
from shunter.web.changes import Changes
from shunter.web.cluster_view import ClusterView
from shunter.web.folder import RunsFolder
from shunter.web.listing import Listing
from shunter.web.settings import WebSettings
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

    @classmethod
    def of(cls, settings: WebSettings, token: str) -> SharedState:
        """The state of a page that begins."""
        folder = RunsFolder.of(settings.folder)
        access = Access(token, settings.port)
        return cls(settings, access, folder, Listing(folder), Changes(folder), Tasks(), ClusterView(settings.live))

    def page(self, part: str, title: str, **more: Any) -> dict[str, Any]:
        """The values of every whole page."""
        return {"part": part, "title": title, "form_token": self.access.form_token, **more}


def state_of(request: Request) -> SharedState:
    """The state of the page that a request is for."""
    return cast("SharedState", request.app.state.shunter)
