"""Lists and shows models: which are available, which is in use, and their provenance. Refuses to change them.

Comparisons are in `ui.desk.usecases.gates`, promotion and rollback in `ui.desk.usecases.model_promotion`, training in
`ui.desk.usecases.learning`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.errors import ReportError
from data.records import MODEL_ROLES, RunId, SignOff
from data.tables.models import ModelTable
from data.tables.sign_offs import SignOffTable
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, embedded_folder
from training.comparison_report import GeneratorComparison
from training.gate_conclusion import conclusion
from training.gate_report import GateReport
from training.registry import aliases, all_models, find_model
from training.verifier_report import VerifierTraining
from ui.desk.context import Actor, Desk
from ui.desk.gate_results import Gate, standing_gate
from ui.desk.model_info import ModelInfo, registered_info
from ui.desk.run_reports import comparison_of_model, verifier_training_of_model
from ui.desk.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelDetail:
    """A registered model in detail.

    `files` maps names to SHA-256. `origin` holds run, data, splits, settings, seed, versions, parent and the run's
    counts. `gate` is the newest comparison with the champion of now (of the champion itself: the newest it stood in)
    by run `gate_run_id`, and `conclusion` says in one line what follows from it; it is empty without one. `training`
    is what a verifier's training measured, `comparison` a generator on the same questions before and after its own.
    `unreadable` has one line for each of these reports that is there and cannot be read.
    """

    info: ModelInfo
    files: Mapping[str, str]
    origin: Mapping[str, object]
    sign_offs: tuple[SignOff, ...]
    gate: GateReport | None
    gate_run_id: RunId | None
    conclusion: str
    training: VerifierTraining | None
    comparison: GeneratorComparison | None
    unreadable: tuple[str, ...]


def list_models(desk: Desk, actor: Actor) -> list[ModelInfo]:
    """The desk's own generator and encoder, then every registered model by role and id."""
    encoder = embedded_folder(EMBEDDED_ENCODER)
    with desk.store.read() as connection:
        known = {row.model_id: row.created_at for row in ModelTable(connection).all()}
    return [
        _own_generator(desk.settings),
        _unregistered("encoder", "embedding", EMBEDDED_ENCODER.title, "champion", encoder),
        *(
            registered_info(desk.settings, model, known.get(model.model_id))
            for role in MODEL_ROLES
            for model in all_models(desk.settings.models, role)
        ),
    ]


def show_model(desk: Desk, actor: Actor, *, model_id: str) -> ModelDetail:
    """Raises NotFoundError, or ModelError if the manifest is damaged."""
    model = find_model(desk.settings.models, model_id)
    champion = aliases(desk.settings.models, model.role).get("champion")
    unreadable: list[str] = []
    gate: Gate | None = None
    with desk.store.read() as connection:
        row = ModelTable(connection).find(model_id)
        sign_offs = SignOffTable(connection).of_model(model_id)
        if model.role == "verifier":
            with _noted(unreadable):
                gate = standing_gate(connection, model_id, None if champion == model_id else champion)
    training: VerifierTraining | None = None
    comparison: GeneratorComparison | None = None
    with _noted(unreadable):
        training = verifier_training_of_model(model)
    with _noted(unreadable):
        comparison = comparison_of_model(model)
    return ModelDetail(
        info=registered_info(desk.settings, model, None if row is None else row.created_at),
        files=model.files,
        origin=model.origin,
        sign_offs=tuple(sign_offs),
        gate=None if gate is None else gate.report,
        gate_run_id=None if gate is None else gate.run_id,
        conclusion="" if gate is None else conclusion(gate.report),
        training=training,
        comparison=comparison,
        unreadable=tuple(unreadable),
    )


@contextmanager
def _noted(unreadable: list[str]) -> Iterator[None]:
    """A model with a damaged report is shown without it, and says so."""
    try:
        yield
    except ReportError as exc:
        unreadable.append(str(exc))


def _own_generator(settings: Settings) -> ModelInfo:
    """The generator named in the settings, otherwise the embedded one."""
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
