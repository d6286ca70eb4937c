"""Models as a person sees them: which are at hand, which is in use, what one is and came from. Refuses to change them.

Comparing is `ui.desk.usecases.gates`, putting in use and taking back `ui.desk.usecases.model_promotion`, training
`ui.desk.usecases.learning`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from data.cache import cache_folder
from data.records import MODEL_ROLES, RunId, SignOff
from data.store import Connection
from data.tables.models import ModelTable
from data.tables.sign_offs import SignOffTable
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, EMBEDDED_MODELS, embedded_folder, fetch
from training.registry import RegisteredModel, aliased, aliases, all_models, find_model, verified
from ui.desk.context import Actor, Desk
from ui.desk.settings import Settings
from ui.desk.usecases.gates import standing_gate


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that the desk can use. `is_at_hand`: its files are here.

    `model_id` is empty for one that is not registered: embedded, or named by the desk's settings; it is `champion`
    where no registered one is in its place, and `override` where the settings name it in the champion's place.
    `run_id` trained it and `parent` was champion then, where that is known.
    """

    model_id: str
    role: str
    kind: str
    version: str
    aliases: tuple[str, ...]
    is_at_hand: bool
    folder: str
    created_at: datetime | None
    run_id: str | None
    parent: str | None

    @property
    def is_champion(self) -> bool:
        return "champion" in self.aliases


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


@dataclass(frozen=True, slots=True)
class FetchedModel:
    name: str
    folder: str


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


def model_info(desk: Desk, connection: Connection, model: RegisteredModel) -> ModelInfo:
    """A registered model as `list_models` tells it."""
    row = ModelTable(connection).find(model.model_id)
    return _info(desk.settings, model, None if row is None else row.created_at)


def fetch_embedded(report: Callable[[str], None]) -> list[FetchedModel]:
    """Into the cache, without a desk. Raises ModelError."""
    return [FetchedModel(model.title, str(fetch(model, cache_folder(), report=report))) for model in EMBEDDED_MODELS]


def champion_verifier(settings: Settings) -> RegisteredModel | None:
    """The verifier in use; None before the first is trained. Raises ModelError when its manifest is damaged."""
    return aliased(settings.models, "verifier", "champion")


def champion_generator(settings: Settings) -> RegisteredModel | None:
    """The registered generator in use; None while it is the desk's own. Raises ModelError for a damaged manifest."""
    return aliased(settings.models, "generator", "champion")


def generator_in_use(settings: Settings) -> str | None:
    """What generates where a run names no model: what the settings name, else the champion; None for the embedded one.

    The settings come first: whoever sets SAGEDESK_MODEL means it for this desk, whatever was promoted before.

    Returns:
        A hub id or a folder; the champion's is absolute.

    Raises:
        ModelError: the champion is not what was registered.
    """
    if settings.model is not None:
        return settings.model
    champion = champion_generator(settings)
    return None if champion is None else str(verified(champion).folder)


def comparison_of(model: RegisteredModel) -> Mapping[str, object] | None:
    """How a generator did on the same questions before and after its training; None where that was not measured."""
    counts = model.origin.get("counts")
    found = counts.get("comparison") if isinstance(counts, Mapping) else None
    return found if isinstance(found, Mapping) else None


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


def _info(settings: Settings, model: RegisteredModel, created_at: datetime | None) -> ModelInfo:
    standing = aliases(settings.models, model.role)
    run_id, parent = model.origin.get("run_id"), model.origin.get("parent")
    return ModelInfo(
        model_id=model.model_id,
        role=model.role,
        kind=model.kind,
        version=model.version,
        aliases=tuple(alias for alias, model_id in standing.items() if model_id == model.model_id),
        is_at_hand=True,
        folder=str(model.folder),
        created_at=created_at,
        run_id=None if run_id is None else str(run_id),
        parent=None if parent is None else str(parent),
    )
