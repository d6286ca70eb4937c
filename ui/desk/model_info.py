"""A registered model as pages and commands show it."""

from dataclasses import dataclass
from datetime import datetime

from data.store import Connection
from data.tables.models import ModelTable
from training.registry import RegisteredModel, aliases
from ui.desk.context import Desk
from ui.desk.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that the desk can use. `is_at_hand`: its files are on this machine.

    `model_id` is empty for an unregistered model: embedded, or named in the desk's settings. Such a model has the alias
    `champion` if no registered one is in use, and `override` if the settings name it instead of the champion.
    `run_id` trained it and `parent` was the champion then, if known.
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


def model_info(desk: Desk, connection: Connection, model: RegisteredModel) -> ModelInfo:
    """A registered model as in `list_models`."""
    row = ModelTable(connection).find(model.model_id)
    return registered_info(desk.settings, model, None if row is None else row.created_at)


def registered_info(settings: Settings, model: RegisteredModel, created_at: datetime | None) -> ModelInfo:
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
