"""Numbers for Prometheus: families of counters, gauges and histograms, their text format, and a small web server."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from typing import Any

from shunter.errors import LiveError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SOCKET_TIMEOUT_S = 5.0  # for a client that connects and sends nothing, or little at a time
MOST_CLIENTS = 16  # at once: every account on the machine can connect, and threads and open files are the controller's
Labels = tuple[str, ...]  # the values, in the order of the family's names
Page = Callable[[], tuple[int, str]]  # HTTP status and text


@dataclass
class Family:
    """A counter or a gauge, with one number for each combination of label values."""

    name: str
    kind: str  # counter or gauge
    about: str
    labels: tuple[str, ...] = ()
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float, *labels: str) -> None:
        """Count."""
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def put(self, value: float, *labels: str) -> None:
        """Set."""
        self.values[labels] = value

    def lines(self) -> Iterable[str]:
        """The samples."""
        for values, number in self.values.items():
            yield sample(self.name, dict(zip(self.labels, values, strict=True)), number)


@dataclass
class Histogram:
    """How many observations lie at or below each bound."""

    name: str
    about: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)
    kind = "histogram"

    def observe(self, value: float, *labels: str) -> None:
        """Count one."""
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def lines(self) -> Iterable[str]:
        """The samples: cumulated, as the format has them."""
        for values, counts in self.counts.items():
            labels, total = dict(zip(self.labels, values, strict=True)), 0
            for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
                total += count
                yield sample(f"{self.name}_bucket", {**labels, "le": number_text(bound)}, total)
            yield sample(f"{self.name}_sum", labels, self.sums[values])
            yield sample(f"{self.name}_count", labels, total)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line of the format."""
    inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {number_text(value)}" if inside else f"{name} {number_text(value)}"


def escaped(text: str) -> str:
    """A label's value, whatever it contains."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number_text(value: float) -> str:
    """A number as the format writes it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def rendered(families: Iterable[Family | Histogram]) -> str:
    """All of them as text."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.about}", f"# TYPE {family.name} {family.kind}", *family.lines()]
    return "\n".join(lines) + "\n"


class _Bounded(ThreadingHTTPServer):
    """Serves a few clients at once, each for a few seconds; others are sent away."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(SOCKET_TIMEOUT_S, _cut_off, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or was sent away, is not worth a traceback."""


def _cut_off(request: Any) -> None:
    with suppress(OSError):  # it is over already
        request.shutdown(SHUT_RDWR)


class Server:
    """Serves pages by their paths from a thread of its own, until closed."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = SOCKET_TIMEOUT_S
            server_version, sys_version = "shunter", ""

            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                status, text = page() if page else (404, f"there is only {' and '.join(pages)}\n")
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """A scrape every few seconds is not worth a line."""

        try:
            self._server = _Bounded((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise LiveError(
                f"metrics can't be served on {host}:{port}: {error}; choose another --metrics-port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
