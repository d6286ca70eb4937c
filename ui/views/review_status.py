"""The line over a review item: progress, what is saved, what is synced, why now. Keeps the reservation alive."""

import time
from html import escape
from typing import Final

import streamlit as st

from data.errors import SagedeskError
from data.records import VariantId
from ui.desk.context import Actor, Desk
from ui.desk.usecases import review
from ui.widgets.page import clock, notice
from ui.widgets.presence import still
from ui.widgets.texts import literal

_REFRESH_S: Final = 4
# A lease lives ten minutes; asking for it every minute survives several lost requests.
_RENEW_S: Final = 60.0
_RENEWED: Final = "review_renewed"


@st.fragment(run_every=_REFRESH_S)
def status_line(desk: Desk, actor: Actor, variant_id: VariantId | None, reason: str) -> None:
    try:
        actor = still(actor)
        queue = review.queue_status(desk, actor)
        sync = review.sync_state(desk, actor)
        is_mine = variant_id is None or _renewed(desk, actor, variant_id)
    except SagedeskError as exc:
        notice(str(exc), kind="error")
        return
    share = queue.done / queue.total if queue.total else 0.0
    parts = [
        f"<b>{queue.done:,} of {queue.total:,}</b>",
        f'<span class="sd-bar" role="progressbar" aria-valuenow="{share:.0%}"><i style="width:{share:.1%}"></i></span>',
        f'<span class="sd-faint">{queue.waiting:,} waiting for you · {queue.mine_today:,} answered today</span>',
        _saved(sync),
    ]
    if not is_mine:
        parts.append('<span class="sd-bad">✕ someone else has opened this item in the meantime</span>')
    if reason:
        parts.append(f'<span class="sd-push sd-chip"><span class="sd-faint">why now:</span> {literal(reason)}</span>')
    st.html(f'<div class="sd-line">{"".join(parts)}</div>')


def _saved(sync: review.SyncState) -> str:
    """Saved and synced are two things, and never one for the other."""
    if sync.saved_at is None:
        return '<span class="sd-faint">nothing saved yet</span>'
    saved = f'<span class="sd-good">✓ saved {escape(clock(sync.saved_at))}</span>'
    if sync.synced_at is not None:
        return f'{saved}<span class="sd-good">✓ synced {escape(clock(sync.synced_at))}</span>'
    if sync.is_synced_elsewhere:
        return f'{saved}<span class="sd-wait">◌ not synced yet</span>'
    return f'{saved}<span class="sd-faint">no Label Studio connected</span>'


def _renewed(desk: Desk, actor: Actor, variant_id: VariantId) -> bool:
    last_id, last_s = st.session_state.get(_RENEWED, (None, 0.0))
    if last_id == variant_id and time.monotonic() - last_s < _RENEW_S:
        return True
    is_mine = review.renew(desk, actor, variant_id=variant_id)
    st.session_state[_RENEWED] = (variant_id, time.monotonic())
    return is_mine
