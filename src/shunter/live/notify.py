"""What a service reports to systemd: that it is ready, alive or stopping (``sd_notify``, without its library).

A message is a datagram to the socket that the service manager names in ``NOTIFY_SOCKET``.  Outside a service there is
no such socket, and nothing is sent.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

LONGEST_STATUS = 200  # characters that 'systemctl status' shows


def notify(**fields: str) -> None:
    """Send fields such as ``READY="1"`` to the service manager; one that does not listen is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket, which has no file
    message = "\n".join(f"{name}={value}" for name, value in fields.items()).encode()
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)  # a full queue must not hold a round up
        sender.sendto(message, address)


def alive(status: str = "") -> None:
    """Report a sign of life, and in a few words what was just done."""
    shown = {"STATUS": " ".join(status.split())[:LONGEST_STATUS]} if status else {}
    notify(READY="1", WATCHDOG="1", **shown)


def patience(seconds: float) -> None:
    """Raise the time without a sign of life after which systemd restarts us (``WatchdogSec=``), if it is shorter."""
    with suppress(ValueError):
        limit_us = int(os.environ.get("WATCHDOG_USEC", "0"))
        if 0 < limit_us < seconds * 1e6:
            notify(WATCHDOG_USEC=str(round(seconds * 1e6)))
