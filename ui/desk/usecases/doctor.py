"""Health checks, one line each, with what to do. Only looks; fixes nothing."""

from collections.abc import Iterator

from data.errors import LabelStudioError
from data.tables.overview import OverviewTable
from ui.desk.context import Actor, Desk
from ui.desk.environment import Finding
from ui.desk.models_in_use import champion_verifier
from ui.desk.sync_status import SyncStatus, status_from


def diagnose(desk: Desk, actor: Actor, *, is_serving: bool = True) -> list[Finding]:
    """Checks of the open desk: store, verifier, Label Studio. `is_serving`: it is running and syncs by itself."""
    return [_store(desk), _verifier(desk), *(_sync(desk) if is_serving else _sync_at_rest(desk))]


def _store(desk: Desk) -> Finding:
    with desk.store.read() as connection:
        funnel = OverviewTable(connection).funnel()
    detail = f"schema {desk.store.schema_version}, {funnel.questions} questions, {funnel.generated} variants"
    return Finding("store", "ok", detail)


def _verifier(desk: Desk) -> Finding:
    champion = champion_verifier(desk.settings)
    if champion is None:
        return Finding("verifier", "warn", "none has been trained yet", "run `sagedesk model retrain`")
    return Finding("verifier", "ok", f"champion {champion.version}")


def _sync_at_rest(desk: Desk) -> Iterator[Finding]:
    """While no desk is running: our own server is down too, an existing one is contacted."""
    with desk.store.read() as connection:
        status = status_from(desk, connection)
    waiting = f"{status.outbox_open} labels to send"
    if desk.sync is None or desk.settings.label_studio_url is None:
        yield Finding("sync", "ok", f"not running; {waiting}")
    else:
        try:
            desk.sync.probe()
        except LabelStudioError as exc:
            advice = f"labels are safe here ({waiting}); check LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY"
            yield Finding("sync", "warn", str(exc), advice)
        else:
            yield Finding("sync", "ok", f"{status.server} answers and accepts the token; {waiting}")
    yield from _oddities(status)


def _sync(desk: Desk) -> Iterator[Finding]:
    """Based on the sync so far; a desk that has just started has none yet."""
    with desk.store.read() as connection:
        status = status_from(desk, connection)
    if not status.is_configured:
        advice = "start the desk with `make up`, or set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY"
        yield Finding("sync", "warn", f"no Label Studio; {status.outbox_open} labels to send", advice)
    elif status.stale_since is not None:
        detail = f"{status.server} is stale since {status.stale_since:%Y-%m-%d %H:%M} UTC: {status.last_error}"
        yield Finding("sync", "warn", detail, "labels are safe here; check that Label Studio is running")
    else:
        last = "never" if status.last_delta_at is None else f"{status.last_delta_at:%Y-%m-%d %H:%M:%S} UTC"
        yield Finding("sync", "ok", f"{status.server}, last read {last}, {status.outbox_open} labels to send")
    yield from _oddities(status)


def _oddities(status: SyncStatus) -> Iterator[Finding]:
    if status.is_config_changed:
        yield Finding(
            "sync",
            "warn",
            "the label config was changed in Label Studio",
            "restore it; until then, labels that do not fit are quarantined",
        )
    if status.quarantined:
        yield Finding(
            "sync", "warn", f"{status.quarantined} annotations or tasks in quarantine", "see `sagedesk sync status`"
        )
