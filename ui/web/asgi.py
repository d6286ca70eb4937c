"""The desk: one process with the pages, the routes and the background work. `python -m ui.web.asgi` runs it.

It owns the store for its lifetime, so there is one desk a state folder.
"""

import contextlib
import logging
import os
import secrets as random_secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import streamlit as st
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from streamlit import config as streamlit_config

from data import processes
from data.errors import SagedeskError
from ui.desk.desk_file import RunningDesk, remove_desk_file, write_desk_file
from ui.desk.settings import Settings, read_settings
from ui.desk.wiring import Background, close_desk, configure_logging, open_desk, read_or_make_secrets
from ui.web import serving
from ui.web.address import LOOPBACK_HOSTS, bound_socket, desk_url
from ui.web.api import api_routes
from ui.web.login import Cookies, SignInGuard, SignInThrottle
from ui.web.login_routes import Door

APP_SCRIPT: Final = Path(__file__).parents[1] / "app.py"
STREAMLIT_OPTIONS: Final = {
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "server.enableStaticServing": False,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": 200,
    "server.runOnSave": False,
}

logger = logging.getLogger(__name__)


def build_app(settings: Settings) -> st.App:
    """Pages, routes, sign-in guard and background work; the store opens when the server starts."""
    secrets = read_or_make_secrets(settings)
    api_token = random_secrets.token_urlsafe(32)

    @contextlib.asynccontextmanager
    async def lifespan(_app: st.App) -> AsyncIterator[None]:
        desk = await run_in_threadpool(open_desk, settings, with_label_studio=True)
        serving.begin(desk, Cookies(secrets.cookie_key))
        background = Background(desk)
        background.start()
        pid = os.getpid()
        running = RunningDesk(desk_url(settings), api_token, pid, processes.started_at(pid) or 0.0)
        write_desk_file(settings.desk_file, running)
        logger.info("the desk is up at %s", running.url)
        try:
            yield
        finally:
            remove_desk_file(settings.desk_file, pid=pid)
            await run_in_threadpool(background.stop)
            serving.end()
            await run_in_threadpool(close_desk, desk, end_jobs=True)

    middleware = [Middleware(SignInGuard, desk=serving.current_desk, cookies=serving.current_cookies)]
    if settings.host in LOOPBACK_HOSTS:
        # A page of another site whose name resolves to this machine must not reach the desk (DNS rebinding).
        middleware.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_HOSTS)))
    door = Door(desk=serving.current_desk, cookies=serving.current_cookies, throttle=SignInThrottle())
    return st.App(
        APP_SCRIPT,
        lifespan=lifespan,
        routes=[
            *door.routes(),
            *api_routes(serving.current_desk, api_token),
        ],
        middleware=middleware,
    )


def main() -> int:
    """Serve until SIGTERM or SIGINT. Exit status 0, or 1 after one line that says why not."""
    settings = read_settings()
    configure_logging(settings)
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        listening = bound_socket(settings)
        app = build_app(settings)
        # After the app is made: it tells Streamlit where the script's own config (the theme) lies, and the first
        # option that is set or read closes the list of config files.
        for option, value in STREAMLIT_OPTIONS.items():
            streamlit_config.set_option(option, value)
        # The desk's address is what the browser must come from; Streamlit checks the websocket's origin against it.
        streamlit_config.set_option("server.port", settings.port)
        streamlit_config.set_option("server.address", settings.host)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                ws="websockets-sansio",
                ws_max_size=200 * 1024 * 1024,
                timeout_graceful_shutdown=2,
                server_header=False,
            )
        )
        server.run(sockets=[listening])
    except (SagedeskError, OSError) as exc:
        logger.error("%s", exc)
        return 1
    return 0 if server.started else 1


if __name__ == "__main__":
    raise SystemExit(main())
