"""Parses a run's settings into the job kind's own model; an error names the invalid setting."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from data.errors import JobError

Settings = TypeVar("Settings", bound=BaseModel)


def parsed_settings(kind: str, model: type[Settings], settings: Mapping[str, object]) -> Settings:
    """Raises JobError naming the kind and the setting."""
    try:
        return model.model_validate(settings)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "settings"
        raise JobError(f"{kind}: setting {where}: {first['msg']}; correct it and start the run again") from exc
