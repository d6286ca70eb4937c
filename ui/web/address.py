"""Where the desk listens: its address, and the socket bound to it. Loads no server."""

import errno
import socket
from typing import Final

from data.errors import SetupError
from ui.desk.settings import Settings

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "::1")


def desk_url(settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def bound_socket(settings: Settings) -> socket.socket:
    """Bound here, before anything is opened, so that a busy port is one clear line.

    Raises:
        SetupError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as exc:
        listening.close()
        is_busy = exc.errno == errno.EADDRINUSE
        raise SetupError(
            f"the desk cannot listen on {settings.host}:{settings.port}: {exc.strerror}; "
            + (
                "stop the program that uses it, or set SAGEDESK_PORT to another port"
                if is_busy
                else "see SAGEDESK_HOST, SAGEDESK_PORT"
            )
        ) from exc
    return listening
