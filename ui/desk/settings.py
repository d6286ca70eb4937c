"""The desk's settings: read once from the environment, printed by `sagedesk settings`.

A setting exists only if two people need different values; a single run's choices are in its run folder.
"""

from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from data.errors import SetupError

DEFAULT_STATE: Final = Path("var")


class Settings(BaseSettings):
    """Environment variables with the prefix SAGEDESK_; Label Studio's own names for the server."""

    model_config = SettingsConfigDict(
        env_prefix="SAGEDESK_", env_ignore_empty=True, frozen=True, populate_by_name=True, extra="ignore"
    )

    state: Path = Field(default=DEFAULT_STATE, description="folder for the store, runs, models and secrets")
    host: str = Field(default="127.0.0.1", description="address that the desk listens on")
    port: int = Field(default=8501, ge=1, le=65535, description="port of the desk")
    model: str | None = Field(
        default=None, description="generator model, a hub id or a folder; the embedded one if unset"
    )
    worker_python: Path | None = Field(default=None, description="interpreter that runs jobs; the desk's own if unset")
    label_studio_python: Path | None = Field(
        default=None, description="interpreter of the Label Studio environment; .venv-label-studio's if unset"
    )
    label_studio_port: int = Field(
        default=8080, ge=1, le=65535, description="port of the Label Studio that the desk starts"
    )
    label_studio_url: str | None = Field(
        default=None, validation_alias="LABEL_STUDIO_URL", description="address of an existing Label Studio"
    )
    label_studio_api_key: SecretStr | None = Field(
        default=None, validation_alias="LABEL_STUDIO_API_KEY", description="token for that server, legacy or personal"
    )
    openai_base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint for the `openai` backend")
    openai_api_key: SecretStr | None = Field(default=None, description="key for that endpoint")
    blind_share: float = Field(
        default=0.3, ge=0, le=1, description="share of the queue that is blind, not counting gate questions"
    )
    sync_interval_s: float = Field(default=5.0, gt=0, description="seconds between syncs with Label Studio")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")

    @property
    def store_file(self) -> Path:
        return self.state / "sagedesk.duckdb"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def models(self) -> Path:
        return self.state / "models"

    @property
    def releases(self) -> Path:
        return self.state / "releases"

    @property
    def desk_file(self) -> Path:
        """Address and token of the running desk (mode 0600); absent if none is running."""
        return self.state / "desk.json"

    @property
    def secrets_file(self) -> Path:
        """Generated keys: cookie signing, Label Studio's token (mode 0600)."""
        return self.state / "secrets.json"

    @property
    def label_studio_state(self) -> Path:
        return self.state / "label-studio"


def read_settings() -> Settings:
    """Settings with an absolute state folder.

    Raises:
        SetupError: a variable has an invalid value; names the variable.
    """
    try:
        settings = Settings()
    except ValidationError as exc:
        first = exc.errors()[0]
        field = str(first["loc"][0])
        variable = field if field.isupper() else f"SAGEDESK_{field.upper()}"
        raise SetupError(f"environment variable {variable}: {first['msg']}; correct or unset it") from exc
    return settings.model_copy(update={"state": settings.state.absolute()})
