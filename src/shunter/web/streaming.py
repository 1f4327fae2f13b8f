"""Server-sent events, and how many browsers may follow something at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from shunter.web.folder import RunsFolder
from shunter.web.growing import so_far
from shunter.web.tasks import BackgroundTask

MOST_WATCHERS = 32  # browsers that follow work at once
LOOK_S = 0.1  # between two looks at a task ...
LOOK_AT_FILES_S = 1.0  # ... and at what other processes write
SIGN_OF_LIFE_S = 15.0  # between two events, so that a proxy keeps the connection


@dataclass
class Watchers:
    """The browsers that follow something."""

    streams: set[int] = field(default_factory=set)

    @property
    def now(self) -> int:
        """How many there are."""
        return len(self.streams)


class EventStream(StreamingResponse):
    """Events for one browser; refused if too many follow something already."""

    def __init__(self, watchers: Watchers, found: AsyncIterator[str]) -> None:
        super().__init__(self._until_last(found), media_type="text/event-stream")
        self._watchers = watchers

    async def _until_last(self, found: AsyncIterator[str]) -> AsyncIterator[str]:
        """Events; after the last one there is room for another browser, before this one knows of the end."""
        async for event in found:
            yield event
        self._watchers.streams.discard(id(self))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the browser goes away."""
        if self._watchers.now >= MOST_WATCHERS:
            detail = f"{MOST_WATCHERS} pages follow their progress already; load this one again later"
            await JSONResponse({"detail": detail}, 503)(scope, receive, send)
            return
        self._watchers.streams.add(id(self))
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers.streams.discard(id(self))


async def of_task(task: BackgroundTask) -> AsyncIterator[str]:
    """The progress of a task; the last event says that it is over."""

    async def look() -> dict[str, Any] | None:
        known = {"done": task.done, "total": task.total, "parts": len(task.parts), "grown": task.grown}
        return None if task.over else known

    async for event in _changes(look, LOOK_S):
        yield event
    yield _event("over", {"problem": task.problem})


async def of_work(folder: RunsFolder, name: str) -> AsyncIterator[str]:
    """The progress of work that another process does; the last event says that it is over."""

    async def look() -> dict[str, Any] | None:
        found = await asyncio.to_thread(so_far, folder, name)
        known = {"done": found.done, "total": found.total, "ended": found.ended}
        known["grown"] = sum(run.points[-1].ended for run in found.runs if run.points)
        return known if found.alive else None

    async for event in _changes(look, LOOK_AT_FILES_S):
        yield event
    yield _event("over", {})


async def _changes(look: Callable[[], Awaitable[dict[str, Any] | None]], every_s: float) -> AsyncIterator[str]:
    """An event whenever something is different, until there is nothing more to see."""
    last: dict[str, Any] = {}
    quiet = 0.0
    while (now := await look()) is not None:
        if now != last or quiet >= SIGN_OF_LIFE_S:
            last, quiet = now, 0.0
            yield _event("progress", now)
        await asyncio.sleep(every_s)
        quiet += every_s


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
