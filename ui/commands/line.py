"""The line to a desk: the running one over HTTP, or the store opened in this process when none runs.

Both answer with the same values and raise the same errors, so no command knows which one it talks to.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

import httpx

from data import errors
from data.errors import SagedeskError, SetupError
from data.processes import is_same_process
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.desk_file import RunningDesk, read_desk_file
from ui.desk.settings import Settings
from ui.desk.use_case_table import name_of, use_case

# A sync or a backup of a large store takes its time; the connection itself is on this machine.
_TIMEOUT: Final = httpx.Timeout(600.0, connect=5.0)

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Line(Protocol):
    """What a command talks to."""

    is_remote: bool

    def call(self, function: Callable[Concatenate[Desk, Actor, P], T], *arguments: P.args, **named: P.kwargs) -> T: ...

    def follow_jobs(self) -> None:
        """See to it that queued jobs start and running ones are followed while this process waits."""
        ...


class LocalLine:
    """Use cases called in this process, on a store that it owns."""

    is_remote = False

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._is_following = False

    def call(self, function: Callable[Concatenate[Desk, Actor, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        return function(self._desk, OPERATOR, *arguments, **named)

    def follow_jobs(self) -> None:
        if not self._is_following:
            self._desk.supervisor.start()
            self._is_following = True


class RemoteLine:
    """Use cases called by name in the running desk, as the operator, with the token of its desk file."""

    is_remote = True

    def __init__(self, running: RunningDesk, client: httpx.Client) -> None:
        self._running = running
        self._client = client

    def call(self, function: Callable[Concatenate[Desk, Actor, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        if arguments:
            raise TypeError("use cases take their arguments by name")
        wanted = use_case(name_of(function))
        try:
            answer = self._client.post(
                f"{self._running.url}/api/call/{wanted.name}",
                json=wanted.dump_arguments(named),
                headers={"Authorization": f"Bearer {self._running.token}"},
            )
        except httpx.HTTPError as exc:
            raise SetupError(
                f"the desk at {self._running.url} (process {self._running.pid}) does not answer: {exc}; "
                f"wait until it is ready, or stop it"
            ) from exc
        content = _json_of(answer, self._running.url)
        if answer.status_code != httpx.codes.OK:
            raise _error_from(content, answer.status_code)
        # The name decides the type: it is the use case that was asked for, by its own annotations.
        result: T = wanted.result.validate_python(content)  # type: ignore[assignment]
        return result

    def follow_jobs(self) -> None:
        """The desk does."""


@contextmanager
def open_line(settings: Settings, *, with_label_studio: bool = False) -> Iterator[Line]:
    """The running desk, else the store.

    Raises:
        StoreBusyError: another command works on the store.
        SetupError: the desk runs but does not answer.
        StoreError: the store cannot be opened.
    """
    running = running_desk(settings)
    if running is not None:
        with httpx.Client(timeout=_TIMEOUT, trust_env=False) as client:
            yield RemoteLine(running, client)
        return
    from ui.desk.wiring import close_desk, open_desk

    desk = open_desk(settings, with_label_studio=with_label_studio)
    try:
        desk.supervisor.poll()  # what was queued meanwhile starts with the next command that owns the store
        yield LocalLine(desk)
    finally:
        close_desk(desk)


def running_desk(settings: Settings) -> RunningDesk | None:
    """The desk that the desk file names, if its process is still that one; a stale file counts for nothing."""
    running = read_desk_file(settings.desk_file)
    if running is None:
        return None
    if not is_same_process(running.pid, running.pid_started_at):
        logger.debug("%s names process %s, which is gone", settings.desk_file, running.pid)
        return None
    return running


def _json_of(answer: httpx.Response, url: str) -> object:
    try:
        return answer.json()
    except ValueError as exc:
        raise SetupError(
            f"{url} answered {answer.status_code} without JSON; is another program listening there? "
            f"Stop it or set SAGEDESK_PORT"
        ) from exc


def _error_from(content: object, status: int) -> SagedeskError:
    """The error that the desk raised, in its own class."""
    if not isinstance(content, Mapping):
        return SagedeskError(f"the desk answered {status}")
    kind = getattr(errors, str(content.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, SagedeskError):
        return kind(str(content.get("error")))
    return SagedeskError(str(content.get("error")))
