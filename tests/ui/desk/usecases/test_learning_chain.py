"""From labels to a verifier in use, in real runs: training, registry, gate, sign-off, the queue judged anew."""

from collections.abc import Callable
from pathlib import Path

import pytest

from data.errors import ConflictError
from data.records import VariantId
from data.tables.verdicts import VerdictTable
from tests.ui.registered import registered_verifier
from training.registry import aliases, promote
from ui.desk.context import Actor, Desk
from ui.desk.usecases.learning import retrain_verifier
from ui.desk.usecases.model_promotion import promote_model
from ui.desk.usecases.models import show_model
from ui.desk.usecases.runs import list_runs

LEA = Actor("lea", "lead")


@pytest.mark.server
def test_a_retrained_verifier_challenges_meets_the_gate_and_judges_the_queue_once_a_lead_signed(
    desk: Desk, tmp_path: Path, queue_variants: Callable[..., list[VariantId]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEDESK_CACHE", str(tmp_path / "no-encoder"))
    champion = registered_verifier(desk, tmp_path / "a", 0.6)
    promote(desk.settings.models, "verifier", champion.model_id)
    waiting = queue_variants(2)

    trained = desk.supervisor.wait(retrain_verifier(desk, LEA).run_id, timeout_s=240)
    gate = desk.supervisor.wait(str(trained.result["followed_by"]), timeout_s=240)
    model_id = str(trained.result["model_id"])
    challenging = aliases(desk.settings.models, "verifier")
    with pytest.raises(ConflictError, match=r"cannot_say.*0 blind labels"):
        promote_model(desk, LEA, model_id=model_id, note="try it")
    promoted = promote_model(desk, LEA, model_id=model_id, note="no blind labels yet", despite_gate=True)
    (judging,) = list_runs(desk, LEA, kind="verify")
    judging = desk.supervisor.wait(judging.run_id, timeout_s=240)

    assert (trained.state, gate.kind, gate.state) == ("done", "gate-verifier", "done"), (trained.message, gate.message)
    assert challenging == {"champion": champion.model_id, "challenger": model_id}
    assert (judging.state, judging.submitted_by, judging.result["variants"]) == ("done", "lea", 2)
    with desk.store.read() as connection:
        latest = VerdictTable(connection).latest_for(waiting)
    assert {verdict.verifier_version for one in latest.values() for verdict in one} == {promoted.version}
    origin = show_model(desk, LEA, model_id=model_id).origin
    assert origin["parent"] == champion.model_id
    assert isinstance(origin["splits"], dict)
    assert origin["splits"]["train"]["labels"] == trained.result["variants"]
    assert isinstance(origin["versions"], dict)
    assert {"python", "numpy"} <= set(origin["versions"])
