"""The settings of a `refresh-generator` run. TRL's own options are passed on unchanged: TRL checks them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from data.records import VARIANT_TYPE_KEYS, VariantTypeKey


class SftSettings(BaseModel):
    """`skip` leaves the stage out; `lora_rank` None trains all weights; all other keys are SFTConfig's."""

    model_config = ConfigDict(extra="allow")

    skip: bool = False
    lora_rank: Annotated[int | None, Field(ge=1)] = 16


class VllmSettings(BaseModel):
    """How replies are sampled: in the trainer, by vLLM beside it, or on the server at `url`."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["off", "colocate", "server"] = "off"
    url: str | None = None


class GrpoSettings(BaseModel):
    """`steps` 0 leaves the stage out; `overrides` are GRPOConfig's. LoRA is the same as in the SFT stage."""

    model_config = ConfigDict(extra="forbid")

    steps: Annotated[int, Field(ge=0)] = 100
    group_size: Annotated[int, Field(ge=2)] = 8
    overrides: Mapping[str, object] = {}
    vllm: VllmSettings = VllmSettings()


class ComparisonSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    questions: Annotated[int, Field(ge=1)] = 20
    per_question: Annotated[int, Field(ge=1)] = 2


class RefreshGeneratorSettings(BaseModel):
    """`base_model`: a folder or hub id, or None for the embedded one. `judge`: a verifier's folder; None trains one."""

    model_config = ConfigDict(extra="forbid")

    base_model: str | None = None
    reward_verifier: str
    judge: str | None = None
    types: Annotated[list[VariantTypeKey], Field(min_length=1)] = list(VARIANT_TYPE_KEYS)
    sft: SftSettings = SftSettings()
    grpo: GrpoSettings = GrpoSettings()
    comparison: ComparisonSettings = ComparisonSettings()
