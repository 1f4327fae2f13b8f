"""Who may use the page: a token in a private file, a cookie made from it, and proof that a form is the page's own."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from shunter import caches
from shunter.errors import RunError

LEAST_LETTERS = 32  # of a token
OTHERS = stat.S_IRWXG | stat.S_IRWXO
BEARER = "Bearer "


def usual_file() -> Path:
    """Where the token is kept unless another file is named."""
    try:
        return caches.private(caches.user_folder("web")) / "token"
    except caches.NotPrivateError as error:
        raise RunError(f"{error}; or name a file with --token-file") from None


def token_in(file: Path) -> str:
    """The token in a file that only its owner can read; made if there is none."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(file)
    except OSError as error:
        raise RunError(f"{file}: the token can't be written: {error.strerror}; name a file with --token-file") from None
    made = secrets.token_urlsafe(32)
    with os.fdopen(number, "w") as opened:
        opened.write(made + "\n")
    return made


def _read(file: Path) -> str:
    try:
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"{file}: the token can't be read: {error.strerror}; name another with --token-file") from None
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise RunError(f"{file}: is no file; name another with --token-file")
        if found.st_uid != os.geteuid() or found.st_mode & OTHERS:
            raise RunError(f"{file}: only its owner may read the token; make it yours and run chmod 600, or remove it")
        token = os.read(number, 1000).decode("ascii", errors="replace").strip()
    finally:
        os.close(number)
    if len(token) < LEAST_LETTERS or not token.isascii() or not token.isprintable():
        raise RunError(f"{file}: holds no token of {LEAST_LETTERS} letters or more; remove it, and a new one is made")
    return token


@dataclass(frozen=True)
class Access:
    """What proves that a request may be answered; every comparison takes the same time whatever is sent."""

    token: str
    port: int  # cookies don't know ports: two pages on one machine need two names
    operator: str = ""  # the token of operators; "": the page changes no cluster

    def __post_init__(self) -> None:
        """Refuse one token for both."""
        if self.token == self.operator:
            raise RunError("operators need a token of their own; name another file with --operator-token-file")

    @property
    def cookie_name(self) -> str:
        """The name of the cookie."""
        return f"shunter-{self.port}"

    @property
    def cookie(self) -> str:
        """The value of the cookie: it opens the page, and nothing can be learned from it about the token."""
        return self._derived("cookie")

    @property
    def form_token(self) -> str:
        """What forms of the page carry, and those of other sites can't know."""
        return self._derived("form")

    @property
    def operator_cookie_name(self) -> str:
        """The name of the cookie of operators."""
        return f"shunter-operator-{self.port}"

    @property
    def operator_cookie(self) -> str:
        """The value of the cookie of operators; made from both tokens, so that a new one of either ends it."""
        return self._derived(f"operator {self.operator}")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def is_operator_token(self, given: str) -> bool:
        """Whether this is the token of operators."""
        return _same(given, self.operator) and bool(self.operator)

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return _same(given, self.token)

    def is_form_token(self, given: str) -> bool:
        """Whether a request comes from a form of the page."""
        return _same(given, self.form_token)

    def admits(self, cookies: str, authorization: str) -> bool:
        """Whether the cookie or the header of a request opens the page."""
        if authorization.startswith(BEARER):
            return self.is_token(authorization.removeprefix(BEARER).strip())
        return _has(cookies, self.cookie_name, self.cookie)

    def admits_operator(self, cookies: str) -> bool:
        """Whether the cookie of a request is that of an operator."""
        return _has(cookies, self.operator_cookie_name, self.operator_cookie) and bool(self.operator)

    def set_cookie(self, secure: bool) -> str:
        """The header that opens the page for this browser until it is closed."""
        return f"{self.cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")

    def set_operator_cookie(self, secure: bool, path: str) -> str:
        """The header that makes this browser an operator's until it is closed; it is sent to these addresses alone."""
        value = f"{self.operator_cookie_name}={self.operator_cookie}; Path={path}; HttpOnly; SameSite=Strict"
        return value + ("; Secure" if secure else "")

    def clear_operator_cookie(self, path: str) -> str:
        """The header that takes that back."""
        return f"{self.operator_cookie_name}=; Path={path}; Max-Age=0; HttpOnly; SameSite=Strict"


def _has(cookies: str, wanted: str, value: str) -> bool:
    pairs = (part.strip().partition("=") for part in cookies.split(";"))  # http.cookies may take seconds
    return any(_same(given, value) for name, _, given in pairs if name == wanted)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), wanted.encode())
