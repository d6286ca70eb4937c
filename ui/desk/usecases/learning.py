"""Starting a training, by a person or the schedule: a verifier from labels, a generator from accepted variants.

Owns the job's settings; its inputs are `ui.desk.training.inputs`, and what becomes of the model `ui.desk.model_ingest`.
One run of a role at a time: the supervisor refuses a second with the first one's name.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from data.errors import ConflictError, InputError
from data.records import VARIANT_TYPE_KEYS, ModelRole, Run, VariantTypeKey
from data.tables.runs import RunTable
from engine.embedded import EMBEDDED_ENCODER, embedded_folder, is_hub_id
from engine.jobs.kinds import TRAINING_KINDS
from engine.jobs.settings import parsed_settings
from training.jobs.train_verifier import TrainVerifierSettings
from training.refresh_settings import RefreshGeneratorSettings
from training.registry import RegisteredModel, aliased, aliases, verified
from ui.desk.cluster_parts import ensure_parts
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.models_in_use import champion_verifier, generator_in_use
from ui.desk.runs.submission import Submission
from ui.desk.training_inputs import generator_inputs, verifier_inputs
from ui.desk.usecases.training_data import preview_training

VerifierKind = Literal["feature", "language"]
VERIFIER_KINDS: Final[tuple[VerifierKind, ...]] = get_args(VerifierKind)
LanguageTraining = Literal["era", "ira"]
LANGUAGE_TRAININGS: Final[tuple[LanguageTraining, ...]] = get_args(LanguageTraining)
VllmMode = Literal["off", "colocate", "server"]
VLLM_MODES: Final[tuple[VllmMode, ...]] = get_args(VllmMode)
COMPARISON_PER_QUESTION: Final = 2

_SECRET_ENDINGS: Final = ("token", "password", "key")
_TEXT_TOKENS: Final = frozenset({"bos_token", "eos_token", "pad_token", "unk_token"})
_MAX_SEED: Final = 2**32
_MAX_LABELS: Final = 10_000_000
_MAX_LORA_RANK: Final = 1_024
_MAX_STEPS: Final = 1_000_000


def retrain_verifier(
    desk: Desk,
    actor: Actor,
    *,
    kind: VerifierKind = "feature",
    method: LanguageTraining = "era",
    base_model: str | None = None,
    lora_rank: int | None = 16,
    max_labels: int | None = None,
    target_precision: float = 0.95,
    compare_methods: bool = False,
    sft: Mapping[str, object] | None = None,
    seed: int = 0,
    elsewhere: bool = False,
) -> Run:
    """Trains a verifier on the current labels. The first becomes champion, a later one challenger; it goes to the gate.

    Args:
        kind: `feature` takes seconds; `language` fine-tunes a language model.
        method: for a language model: `era` judges each dimension, `ira` judges validity in one pass.
        base_model: for a language model: a folder or hub id; None for the one in the settings, else the embedded one.
        lora_rank: for a language model; None trains all weights.
        max_labels: the maximum number of training labels, 30 % of them from the first labels; None for all.
        target_precision: required precision of what the verifier accepts as valid, from 0.5 to below 1.
        compare_methods: train a language model with both methods on the same rows, and report both.
        sft: TRL's own options by name, overriding ours; no secrets.
        elsewhere: for a worker machine: the run waits for `sagedesk run export`.

    Raises:
        PermissionDeniedError, InputError (an invalid setting, or a language model's setting for another kind).
        ConflictError: a verifier is already being trained, or the current labels are not enough; says why.
    """
    require_lead(desk, actor, "verifier.retrain", kind)
    if kind not in VERIFIER_KINDS or method not in LANGUAGE_TRAININGS:
        raise InputError(
            f"use {' or '.join(VERIFIER_KINDS)} as the kind and {' or '.join(LANGUAGE_TRAININGS)} as the method"
        )
    _check_seed(seed)
    _check_range("max_labels", max_labels, 1, _MAX_LABELS)
    _check_range("lora_rank", lora_rank, 1, _MAX_LORA_RANK)
    _refuse_secrets(sft)
    if not 0.5 <= target_precision < 1:
        raise InputError(f"target precision {target_precision}: use a value from 0.5 to below 1")
    settings: dict[str, object] = {"verifier": kind, "target_precision": target_precision}
    if kind == "feature":
        if base_model or sft or compare_methods:
            raise InputError(
                "a base model, TRL's options and comparing methods are for language models; use the kind `language`"
            )
        encoder = embedded_folder(EMBEDDED_ENCODER)
        settings["encoder"] = None if encoder is None else str(encoder)
    else:
        settings |= {
            "method": method,
            "base_model": _model_reference(base_model or desk.settings.model),
            "lora_rank": lora_rank,
            "sft": dict(sft or {}),
            "compare_methods": compare_methods,
        }
    _refuse_blocked(desk, actor, "verifier", max_labels)
    _settle_parts(desk)
    with desk.store.read() as connection:
        inputs = verifier_inputs(connection, max_labels=max_labels, seed=seed)
    return _submit(
        desk,
        actor,
        "verifier",
        "verifier.retrain",
        Submission(
            "train-verifier",
            settings,
            inputs,
            seed,
            {**_parent(desk, "verifier"), "max_labels": max_labels},
            elsewhere=elsewhere,
        ),
    )


def refresh_generator(
    desk: Desk,
    actor: Actor,
    *,
    base_model: str | None = None,
    types: Sequence[VariantTypeKey] = VARIANT_TYPE_KEYS,
    sft_epochs: float = 1.0,
    lora_rank: int | None = 16,
    sft: Mapping[str, object] | None = None,
    grpo_steps: int = 100,
    group_size: int = 8,
    grpo: Mapping[str, object] | None = None,
    vllm: VllmMode = "off",
    vllm_url: str | None = None,
    comparison_questions: int = 20,
    skip_sft: bool = False,
    seed: int = 0,
    elsewhere: bool = False,
) -> Run:
    """Trains a generator on accepted variants (SFT), then with the champion verifier as reward (GRPO), and compares it.

    Args:
        base_model: the model to start from, a folder or hub id; None for the generator in use.
        types: variant types for training and comparison.
        sft_epochs: epochs on the accepted variants.
        lora_rank: None trains all weights.
        sft: TRL's own options for the first stage by name, overriding ours; `grpo` for the second. No secrets.
        grpo_steps: 0 leaves the second stage out.
        group_size: replies per prompt that are compared with each other.
        vllm: how the second stage samples: `off` in the trainer, `colocate` beside it, `server` at `vllm_url`.
        comparison_questions: held-out questions for comparing the old and the new generator.
        skip_sft: start with the second stage.
        elsewhere: for a worker machine: the run waits for `sagedesk run export`.

    Raises:
        PermissionDeniedError, InputError (an invalid setting).
        ConflictError: a generator is already being trained, or there is no verifier or nothing to learn from.
        ModelError: the verifier or the generator in use is not what was registered.
    """
    require_lead(desk, actor, "generator.refresh", base_model or "generator")
    _check_seed(seed)
    if unknown := [one for one in types if one not in VARIANT_TYPE_KEYS]:
        raise InputError(f"variant type {unknown[0]!r}: use some of {', '.join(VARIANT_TYPE_KEYS)}")
    if not types:
        raise InputError(f"name at least one variant type of {', '.join(VARIANT_TYPE_KEYS)}")
    _check_range("lora_rank", lora_rank, 1, _MAX_LORA_RANK)
    _check_range("grpo_steps", grpo_steps, 0, _MAX_STEPS)
    _check_range("group_size", group_size, 2, 256)
    _check_range("comparison_questions", comparison_questions, 1, 10_000)
    _refuse_secrets(sft)
    _refuse_secrets(grpo)
    if not 0 < sft_epochs <= 100:
        raise InputError(f"sft_epochs {sft_epochs}: use a value above 0 and up to 100")
    if skip_sft and grpo_steps == 0:
        raise InputError("both training stages are switched off, so nothing would be trained; switch one on")
    if vllm not in VLLM_MODES or (vllm == "server") != (vllm_url is not None):
        raise InputError(f"use one of {', '.join(VLLM_MODES)} for vllm, and vllm_url only with `server`")
    if vllm_url is not None and (urlsplit(vllm_url).scheme not in ("http", "https") or "@" in vllm_url):
        raise InputError(f"vllm_url {vllm_url.rpartition('@')[2]!r}: use http://HOST:PORT, without a password in it")
    verifier = champion_verifier(desk.settings)
    if verifier is None:
        raise ConflictError(
            "no verifier has been trained yet, and a generator needs one as its reward; train one first"
        )
    settings: dict[str, object] = {
        "base_model": _model_reference(base_model or generator_in_use(desk.settings)),
        "reward_verifier": str(verified(verifier).folder),
        # None: a judge is trained, on questions that the reward verifier has not seen
        "judge": None,
        "types": list(dict.fromkeys(types)),
        "sft": {"skip": skip_sft, "lora_rank": lora_rank, "num_train_epochs": sft_epochs, **(sft or {})},
        "grpo": {
            "steps": grpo_steps,
            "group_size": group_size,
            "overrides": dict(grpo or {}),
            "vllm": {"mode": vllm} if vllm_url is None else {"mode": vllm, "url": vllm_url},
        },
        "comparison": {"questions": comparison_questions, "per_question": COMPARISON_PER_QUESTION},
    }
    _refuse_blocked(desk, actor, "generator", None)
    _settle_parts(desk)
    with desk.store.read() as connection:
        inputs = generator_inputs(connection)
    return _submit(
        desk,
        actor,
        "generator",
        "generator.refresh",
        Submission("refresh-generator", settings, inputs, seed, _parent(desk, "generator"), elsewhere=elsewhere),
    )


def train_as_before(desk: Desk, actor: Actor, *, role: ModelRole) -> Run:
    """Trains with the settings of the champion's own training, or the default ones if those are unknown.

    Raises:
        JobError: those settings are no longer valid.
        PermissionDeniedError, InputError, ConflictError, ModelError: like a start with these settings.
    """
    champion = aliased(desk.settings.models, role, "champion")
    known = None if champion is None else champion.origin.get("settings")
    settings = known if isinstance(known, Mapping) else None
    if role == "verifier":
        if settings is None:
            return retrain_verifier(desk, actor)
        verifier = parsed_settings("train-verifier", TrainVerifierSettings, settings)
        return retrain_verifier(
            desk,
            actor,
            kind=verifier.verifier,
            method=verifier.method,
            base_model=verifier.base_model,
            lora_rank=verifier.lora_rank,
            max_labels=_most_labels(champion),
            target_precision=verifier.target_precision,
            sft=verifier.sft,
        )
    if settings is None:
        return refresh_generator(desk, actor)
    generator = parsed_settings("refresh-generator", RefreshGeneratorSettings, settings)
    return refresh_generator(
        desk,
        actor,
        types=generator.types,
        lora_rank=generator.sft.lora_rank,
        sft=generator.sft.model_extra,
        grpo_steps=generator.grpo.steps,
        group_size=generator.grpo.group_size,
        grpo=generator.grpo.overrides,
        vllm=generator.grpo.vllm.mode,
        vllm_url=generator.grpo.vllm.url,
        comparison_questions=generator.comparison.questions,
        skip_sft=generator.sft.skip,
    )


def _refuse_blocked(desk: Desk, actor: Actor, role: ModelRole, max_labels: int | None) -> None:
    with desk.store.read() as connection:
        going_on = RunTable(connection).in_states(["queued", "running", "away"])
    if any(run.kind == TRAINING_KINDS[role] for run in going_on):
        return  # the supervisor refuses that, naming the run
    if blockers := preview_training(desk, actor, role=role, max_labels=max_labels).blockers:
        raise ConflictError(f"the {role} cannot be trained now: {'; '.join(blockers)}")


def _settle_parts(desk: Desk) -> None:
    """Gives every question its permanent part, in a short write; building the inputs takes seconds but needs none."""
    with desk.store.write() as connection:
        ensure_parts(connection, desk.now())


def _submit(desk: Desk, actor: Actor, role: ModelRole, action: str, wanted: Submission) -> Run:
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, action, run.run_id, role=role, elsewhere=wanted.elsewhere)
    return run


def _parent(desk: Desk, role: ModelRole) -> Mapping[str, object]:
    """The current champion, for the new model's lineage."""
    return {"parent": aliases(desk.settings.models, role).get("champion")}


def _most_labels(model: RegisteredModel | None) -> int | None:
    """The maximum requested for its training; None if there was none or it is unknown."""
    most = None if model is None else model.origin.get("max_labels")
    return most if isinstance(most, int) else None


def _model_reference(named: str | None) -> str | None:
    """An absolute folder, an unchanged hub id, or None for the embedded model. Raises InputError for anything else."""
    if named is None:
        return None
    folder = Path(named).expanduser()
    if folder.is_dir():
        return str(folder.absolute())
    if is_hub_id(named):
        return named
    raise InputError(
        f"base model {named!r}: no such folder; give a folder with a config.json, or a hub id such as owner/name"
    )


def _refuse_secrets(options: object) -> None:
    """Settings are stored in the run's row, folder and exports. Raises InputError, which gives only names."""
    if not isinstance(options, Mapping):
        return
    for name, value in options.items():
        lowered = str(name).lower()
        if lowered.endswith(_SECRET_ENDINGS) and lowered not in _TEXT_TOKENS:
            raise InputError(f"{name}: settings are stored in plain text; leave out tokens, passwords and keys")
        if isinstance(value, str) and "@" in value.partition("://")[2]:
            raise InputError(f"{name}: use http://HOST:PORT, without a password in it")
        _refuse_secrets(value)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < _MAX_SEED:
        raise InputError(f"seed {seed}: use 0 to {_MAX_SEED - 1}")


def _check_range(name: str, value: int | None, lowest: int, highest: int) -> None:
    if value is not None and not lowest <= value <= highest:
        raise InputError(f"{name} {value}: use {lowest:,} to {highest:,}")
