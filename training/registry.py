"""The model registry: content-addressed folders, and aliases that say which of them is in use.

    MODELS/ROLE/MODEL_ID/            the model's files, and manifest.json with their hashes
    MODELS/ROLE/aliases.json         which model is champion, challenger, previous

A model is registered completely or not at all, and the aliases of a role change together or not at all: one rename
each. Refuses to hand out a folder whose files do not match its manifest.
"""

import hashlib
import json
import logging
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from data.errors import ConflictError, ModelError, NotFoundError
from data.files import file_sha256, scratch_beside, sync_tree, write_json
from data.records import MODEL_ROLES, ModelRole

Alias = Literal["champion", "challenger", "previous"]
ALIASES: Final[tuple[Alias, ...]] = get_args(Alias)

MANIFEST: Final = "manifest.json"
_ALIASES_FILE: Final = "aliases.json"
_ID_HEX_DIGITS: Final = 16
_MODEL_ID: Final = re.compile(f"[0-9a-f]{{{_ID_HEX_DIGITS}}}")

logger = logging.getLogger(__name__)

# A finished run may set a challenger while a lead promotes: each would overwrite the other's change.
_changing_aliases = threading.Lock()


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """`version` names the model in verdicts and recipes; `origin` says where it came from (run, data, seed, counts)."""

    model_id: str
    role: ModelRole
    kind: str
    version: str
    folder: Path
    files: Mapping[str, str]
    origin: Mapping[str, object]


def register(
    models: Path, source: Path, *, role: ModelRole, kind: str, version: str, origin: Mapping[str, object]
) -> RegisteredModel:
    """Copies the files of `source` in; content that is already registered is the existing model.

    Raises:
        ModelError: there is nothing to register, or the disk fails; then nothing is left behind.
    """
    try:
        files = {file.relative_to(source).as_posix(): file_sha256(file) for file in _files(source)}
        if not files:
            raise ModelError(f"registering {source}: the folder is empty; train again")
        model_id = _model_id(files)
        goal = models / role / model_id
        if not goal.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            _copy_whole(
                source,
                goal,
                {"model_id": model_id, "role": role, "kind": kind, "version": version}
                | {"files": files, "origin": dict(origin)},
            )
        return read_model(models, role, model_id)
    except OSError as exc:
        raise ModelError(
            f"registering the {role} in {models}: {exc.strerror or exc}; free disk space, then resume"
        ) from exc


def read_model(models: Path, role: ModelRole, model_id: str) -> RegisteredModel:
    """The model according to its manifest; its files are not checked.

    Raises:
        NotFoundError: no such model.
        ModelError: the manifest is damaged, or belongs to another model.
    """
    unknown = f"no {role} {model_id!r} in {models}; `sagedesk model list` shows all models"
    if _MODEL_ID.fullmatch(model_id) is None:
        raise NotFoundError(unknown)
    folder = models / role / model_id
    try:
        content = json.loads((folder / MANIFEST).read_text("utf-8"))
        named = (content["model_id"], content["role"], _model_id(content["files"]))
        model = RegisteredModel(
            model_id, role, content["kind"], content["version"], folder, content["files"], content["origin"]
        )
    except FileNotFoundError as exc:
        raise NotFoundError(unknown) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{folder / MANIFEST} is damaged ({exc}); train the model again") from exc
    if named != (model_id, role, model_id):
        raise ModelError(f"{folder / MANIFEST} belongs to another model; train the model again")
    return model


def open_model(models: Path, role: ModelRole, model_id: str) -> RegisteredModel:
    """A model that may be loaded. Raises NotFoundError, or ModelError if it is not what was registered."""
    return verified(read_model(models, role, model_id))


def verified(model: RegisteredModel) -> RegisteredModel:
    """The model, with its files hashed again. Raises ModelError naming the first changed or extra file."""
    for file in _files(model.folder):
        if (name := file.relative_to(model.folder).as_posix()) not in model.files:
            raise ModelError(f"{model.role} {model.model_id}: {name} was not registered with it; remove that file")
    for name, digest in model.files.items():
        file = model.folder / name
        if not file.is_file() or file_sha256(file) != digest:
            raise ModelError(
                f"{model.role} {model.model_id}: {name} has changed since registration; train again, or use another"
            )
    return model


def find_model(models: Path, model_id: str) -> RegisteredModel:
    """Like `read_model`, for any role.

    Raises:
        NotFoundError: no such model.
        ModelError: the manifest is damaged.
    """
    for role in MODEL_ROLES:
        with suppress(NotFoundError):
            return read_model(models, role, model_id)
    raise NotFoundError(f"no model {model_id!r} is registered; `sagedesk model list` shows all models")


def all_models(models: Path, role: ModelRole) -> list[RegisteredModel]:
    """Sorted by id; unfinished folders are ignored, one with a damaged manifest is logged and left out."""
    found = []
    for folder in sorted((models / role).glob("*")):
        if _MODEL_ID.fullmatch(folder.name) and (folder / MANIFEST).exists():
            try:
                found.append(read_model(models, role, folder.name))
            except ModelError as exc:
                logger.warning("%s", exc)
    return found


def aliases(models: Path, role: ModelRole) -> Mapping[Alias, str]:
    """The model id of each alias that is set; whether the model exists is not checked.

    Raises:
        ModelError: the alias file is damaged.
    """
    file = models / role / _ALIASES_FILE
    try:
        found = json.loads(file.read_text("utf-8"))
        return {alias: str(found[alias]) for alias in ALIASES if found.get(alias)}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as exc:
        raise ModelError(f"{file} is damaged ({exc}); remove it, then promote a model again") from exc


def aliased(models: Path, role: ModelRole, alias: Alias) -> RegisteredModel | None:
    """None if the alias is not set. Raises NotFoundError or ModelError if its model is gone."""
    model_id = aliases(models, role).get(alias)
    return None if model_id is None else read_model(models, role, model_id)


def set_alias(models: Path, role: ModelRole, alias: Alias, model_id: str) -> None:
    """Raises NotFoundError if there is no such model."""
    read_model(models, role, model_id)
    with _changing_aliases:
        _write_aliases(models, role, {**aliases(models, role), alias: model_id})


def promote(models: Path, role: ModelRole, model_id: str) -> None:
    """Makes a model the champion, which is then no longer a challenger; keeps the old champion as `previous`.

    Raises:
        NotFoundError, ModelError: it is missing, or not what was registered; the aliases are unchanged.
    """
    open_model(models, role, model_id)
    with _changing_aliases:
        standing = aliases(models, role)
        before = standing.get("champion")
        if before == model_id:
            return
        challenger = standing.get("challenger")
        _write_aliases(
            models,
            role,
            {
                "champion": model_id,
                "challenger": None if challenger == model_id else challenger,
                "previous": standing.get("previous") if before is None else before,
            },
        )


def after_rollback(models: Path, role: ModelRole) -> str | None:
    """The model that `roll_back` would put into use; None if that is the desk's own, unregistered generator.

    Raises:
        ConflictError: there is nothing to go back to.
    """
    standing = aliases(models, role)
    if "previous" in standing:
        return standing["previous"]
    if role == "generator" and "champion" in standing:
        return None
    raise ConflictError(f"there is no {role} to roll back to; `sagedesk model list` shows all models")


def roll_back(models: Path, role: ModelRole) -> RegisteredModel | None:
    """Champion and previous change places; doing it twice restores the original state.

    If no registered generator came before, none is in use afterwards.

    Raises:
        ConflictError: there is nothing to go back to.
        NotFoundError, ModelError: it is missing, or not what was registered; the aliases are unchanged.
    """
    back_to = after_rollback(models, role)
    model = None if back_to is None else open_model(models, role, back_to)
    with _changing_aliases:
        standing = aliases(models, role)
        challenger = standing.get("challenger")
        _write_aliases(
            models,
            role,
            {
                "champion": back_to,
                "challenger": None if challenger == back_to else challenger,
                "previous": standing.get("champion"),
            },
        )
    return model


def remove_unfinished(models: Path) -> None:
    """Removes leftovers of a killed registration or alias change; call at start, before any registration."""
    for role in MODEL_ROLES:
        for leftover in (models / role).glob(".*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _write_aliases(models: Path, role: ModelRole, wanted: Mapping[Alias, str | None]) -> None:
    file = models / role / _ALIASES_FILE
    try:
        write_json(file, {alias: model_id for alias, model_id in wanted.items() if model_id is not None})
    except OSError as exc:
        raise ModelError(f"writing {file}: {exc.strerror or exc}; free disk space, then try again") from exc


def _copy_whole(source: Path, goal: Path, manifest: Mapping[str, object]) -> None:
    with scratch_beside(goal) as scratch:
        made = scratch / "model"
        shutil.copytree(source, made)
        write_json(made / MANIFEST, manifest)
        sync_tree(made)
        made.rename(goal)


def _model_id(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()[:_ID_HEX_DIGITS]


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != MANIFEST)
