"""What stands before every address: the host's name, the token, forms of our own, sizes, and headers of answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response

from shunter.web.access import Access
from shunter.web.settings import MIB, WebSettings

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ENTER = "/enter"
STATIC = "/static/"
OPERATOR = "/cluster/operator"
OPERATOR_ENTER = f"{OPERATOR}/enter"
OPERATOR_API = "/api/operator"
OPERATOR_TOKEN = "X-Operator-Token"
UPLOAD = "/what-if/traces"
FORM_TOKEN = "X-Form-Token"
MOST_BODY = MIB  # bytes of a form
LONGEST_LENGTH = 20  # digits of a length
SAFE = frozenset({"GET", "HEAD"})
POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",  # charts set styles of their elements
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class TooMuchError(Exception):
    """A request has more bytes than its address takes."""


class Gate:
    """Answers what must not get further, and passes on the rest."""

    def __init__(self, app: Any, access: Access, settings: WebSettings) -> None:
        self.app, self.access = app, access
        self.hosts, self.most_upload = settings.hosts, settings.upload_mib * MIB

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets
        path, headers = scope["path"], Headers(scope=scope)
        sending = _with_headers(send, cached=path.startswith(STATIC))
        most = self.most_upload if path == UPLOAD else MOST_BODY
        refused = self._refusal(scope["method"], path, headers, most)
        try:
            await (refused or self.app)(scope, _counted(receive, most), sending)
        except TooMuchError:
            await _answer(413, f"more than {most // MIB} MiB; send less")(scope, receive, sending)

    def _refusal(self, method: str, path: str, headers: Headers, most: int) -> Response | None:
        """The answer to a request that may not pass; None: it may."""
        if headers.get("host", "").lower() not in self.hosts:
            return _answer(421, "this host name is not served; name it with --allow-host")
        if method not in SAFE and not _same_origin(headers):
            return _answer(403, "this request comes from another site")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal() and len(length) < LONGEST_LENGTH) or int(length) > most:
            return _answer(413, f"more than {most // MIB} MiB; send less")
        if path == ENTER or path.startswith(STATIC):
            return None
        return (
            self._unauthorised(method, headers) or self._no_operator(path, headers) or self._no_program(path, headers)
        )

    def _no_program(self, path: str, headers: Headers) -> Response | None:
        """The answer to an operator's request that comes from no program with both tokens; None: it may pass."""
        if not path.startswith(OPERATOR_API):
            return None
        if _by_browser(headers) or "authorization" not in headers:
            return _answer(403, "this is for programs; send both tokens as headers, and no cookie")
        if self.access.is_operator_token(headers.get(OPERATOR_TOKEN, "")):
            return None
        return _answer(403, f"this is for operators; send their token as {OPERATOR_TOKEN}")

    def _no_operator(self, path: str, headers: Headers) -> Response | None:
        """The answer to a request for operators alone that comes from no operator; None: it may pass."""
        if not path.startswith(f"{OPERATOR}/") or path == OPERATOR_ENTER:
            return None
        if self.access.admits_operator(headers.get("cookie", "")):
            return None
        return _answer(403, "this is for operators; enter their token first")

    def _unauthorised(self, method: str, headers: Headers) -> Response | None:
        """The answer to a request that does not prove its right; None: it does."""
        if not self.access.admits(headers.get("cookie", ""), headers.get("authorization", "")):
            wants_page = method == "GET" and "text/html" in headers.get("accept", "") and "hx-request" not in headers
            return RedirectResponse(ENTER, 303) if wants_page else _answer(401, "no token; open the printed address")
        if method not in SAFE and _by_browser(headers) and not self.access.is_form_token(headers.get(FORM_TOKEN, "")):
            return _answer(403, "the form is not the page's own; load the page again")
        return None


def _answer(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)


def _same_origin(headers: Headers) -> bool:
    """Whether a browser says that the page itself sends this; a program says nothing."""
    site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
    return site in ("same-origin", "none") and (origin is None or urlsplit(origin).netloc == headers.get("host"))


def _by_browser(headers: Headers) -> bool:
    """Whether what proves the right to ask could come along by itself: a cookie, or a proxy's header."""
    return "cookie" in headers or "origin" in headers or "sec-fetch-site" in headers


def _counted(receive: Receive, most: int) -> Receive:
    """Refuses the rest of a body that is too long, whatever its header says."""
    left = most

    async def receiving() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooMuchError
        return message

    return receiving


def _with_headers(send: Send, cached: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["Cache-Control"] = "max-age=3600" if cached else "no-store"
        await send(message)

    return sending
