"""What forms send."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.requests import ClientDisconnect

from shunter.errors import RunError

MOST_FIELDS = 2000
LONGEST_S = 30.0  # until a form is there


@dataclass(frozen=True)
class Sent:
    """The fields of a form in their order; a name may come several times."""

    pairs: tuple[tuple[str, str], ...]

    def one(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return next((value for key, value in reversed(self.pairs) if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.pairs if key == name]

    def under(self, prefix: str) -> dict[str, str]:
        """The fields whose names begin so, by the rest of their names."""
        return {key.removeprefix(prefix): value for key, value in self.pairs if key.startswith(prefix)}


async def sent(request: Request) -> Sent:
    """The form of a request."""
    try:
        body = await asyncio.wait_for(request.body(), LONGEST_S)
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ClientDisconnect:
        raise RunError("the form did not arrive: the connection was closed; send it again") from None
    except TimeoutError:
        raise RunError(f"the form did not arrive within {LONGEST_S:.0f} s; send it again") from None
    except ValueError:
        raise RunError("the form can't be read; load the page again") from None
    return Sent(tuple(pairs))


async def asked(request: Request) -> Sent:
    """The same, of what stands behind ``?`` in an address."""
    return Sent(tuple(request.query_params.multi_items()))
