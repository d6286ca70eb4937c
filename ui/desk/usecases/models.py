"""Models as a person sees them: which are at hand, which is in use, what one is and came from. Refuses to change them.

Comparing is `ui.desk.usecases.gates`, putting in use and taking back `ui.desk.usecases.model_promotion`, training
`ui.desk.usecases.learning`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data.records import MODEL_ROLES, RunId, SignOff
from data.tables.models import ModelTable
from data.tables.sign_offs import SignOffTable
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, embedded_folder
from training.registry import aliases, all_models, find_model
from ui.desk.context import Actor, Desk
from ui.desk.gate_results import standing_gate
from ui.desk.model_info import ModelInfo, _info, comparison_of
from ui.desk.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelDetail:
    """A registered model with what is known of it.

    `files` maps names to SHA-256. `origin` holds run, data, splits, settings, seed, versions, parent and the run's
    counts. `gate` is the newest comparison with the champion of now (of the champion itself: the newest it stood in)
    by run `gate_run_id`; `comparison` a generator's figures on the same questions before and after its training.
    """

    info: ModelInfo
    files: Mapping[str, str]
    origin: Mapping[str, object]
    sign_offs: tuple[SignOff, ...]
    gate: Mapping[str, object] | None
    gate_run_id: RunId | None
    comparison: Mapping[str, object] | None


def list_models(desk: Desk, actor: Actor) -> list[ModelInfo]:
    """The desk's own generator and encoder, then every registered model by role and id."""
    encoder = embedded_folder(EMBEDDED_ENCODER)
    with desk.store.read() as connection:
        known = {row.model_id: row.created_at for row in ModelTable(connection).all()}
    return [
        _own_generator(desk.settings),
        _unregistered("encoder", "embedding", EMBEDDED_ENCODER.title, "champion", encoder),
        *(
            _info(desk.settings, model, known.get(model.model_id))
            for role in MODEL_ROLES
            for model in all_models(desk.settings.models, role)
        ),
    ]


def show_model(desk: Desk, actor: Actor, *, model_id: str) -> ModelDetail:
    """Raises NotFoundError, or ModelError for one whose manifest is damaged."""
    model = find_model(desk.settings.models, model_id)
    champion = aliases(desk.settings.models, model.role).get("champion")
    with desk.store.read() as connection:
        row = ModelTable(connection).find(model_id)
        sign_offs = SignOffTable(connection).of_model(model_id)
        against = None if champion == model_id else champion
        gate = standing_gate(connection, model_id, against) if model.role == "verifier" else None
    return ModelDetail(
        info=_info(desk.settings, model, None if row is None else row.created_at),
        files=model.files,
        origin=model.origin,
        sign_offs=tuple(sign_offs),
        gate=None if gate is None else gate.report,
        gate_run_id=None if gate is None else gate.run_id,
        comparison=comparison_of(model),
    )


def _own_generator(settings: Settings) -> ModelInfo:
    """The generator that the settings name, else the embedded one."""
    has_champion = "champion" in aliases(settings.models, "generator")
    if settings.model is None:
        folder = embedded_folder(EMBEDDED_GENERATOR)
        alias = None if has_champion else "champion"
        return _unregistered("generator", "causal_lm", EMBEDDED_GENERATOR.title, alias, folder)
    named = Path(settings.model).expanduser()
    alias = "override" if has_champion else "champion"
    return _unregistered("generator", "causal_lm", settings.model, alias, named if named.is_dir() else None)


def _unregistered(role: str, kind: str, version: str, alias: str | None, folder: Path | None) -> ModelInfo:
    return ModelInfo(
        model_id="",
        role=role,
        kind=kind,
        version=version,
        aliases=() if alias is None else (alias,),
        is_at_hand=folder is not None,
        folder=str(folder or ""),
        created_at=None,
        run_id=None,
        parent=None,
    )
