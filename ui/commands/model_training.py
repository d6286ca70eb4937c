"""`sagedesk model preview|retrain|refresh|schedule`: training verifiers and generators, and when it is due."""

from typing import Annotated, Final

import typer

from data.errors import InputError
from data.records import ModelRole, Schedule
from ui.commands.line import open_line
from ui.commands.output import AsJson, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.commands.variant import Types, chosen_types
from ui.desk.named_values import named_values
from ui.desk.settings import read_settings
from ui.desk.usecases import learning, runs, schedules, training_data
from ui.desk.usecases.learning import LanguageTraining, VerifierKind, VllmMode

Role = Annotated[ModelRole, typer.Argument(metavar="ROLE", help="The role of the model.")]
BaseModel = Annotated[str | None, typer.Option(help="Folder or hub id of the language model to train.")]
LoraRank = Annotated[int, typer.Option(min=0, help="Rank of the adapter; 0 trains all weights.")]
Elsewhere = Annotated[
    bool, typer.Option("--elsewhere", help="Train on a worker machine: prepare the run for `sagedesk run export`.")
]
Seed = Annotated[int, typer.Option(help="On a CPU, the same seed and labels give the same model.")]
SftOptions = Annotated[
    list[str] | None, typer.Option("--sft", metavar="NAME=VALUE", help="An option of TRL's SFTConfig; may be repeated.")
]
GrpoOptions = Annotated[
    list[str] | None,
    typer.Option("--grpo", metavar="NAME=VALUE", help="An option of TRL's GRPOConfig; may be repeated."),
]

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def preview(
    role: Role,
    max_labels: Annotated[int | None, typer.Option(min=1, help="Maximum labels.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show which labels training would use now, and which it would exclude and why."""
    with open_line(read_settings()) as line:
        found = line.call(training_data.preview_training, role=role, max_labels=max_labels)
    if as_json:
        emit_json(found)
        return
    facts: list[tuple[str, object]] = [
        ("usable labels", found.labels),
        ("questions", found.questions),
        ("blind", found.blind),
        ("not blind", found.assisted),
        ("first labels included", f"{found.first_labels_kept} of {found.first_labels}"),
        ("rejected variants of the newest generator", found.current_generator_negatives),
        ("blind labels for the gate", found.gate_labels),
    ]
    if role == "generator":
        facts += [("prompts", found.prompt_questions), ("held-out questions", found.held_out_questions)]
    emit_facts(facts)
    emit_table(
        ("part", "labels", "questions", "blind"),
        [(it.part, it.labels, it.questions, it.blind) for it in found.parts],
        empty="no labels yet; review some variants",
    )
    emit_table(
        ("type", "labels", "accepted"), [(it.variant_type, it.labels, it.accepted) for it in found.types], empty=""
    )
    emit_table(("dimension", "yes", "no"), [(it.dimension, it.yes, it.no) for it in found.dimensions], empty="")
    emit_table(("source", "labels"), [(it.source, it.labels) for it in found.sources], empty="")
    if found.left_out:
        emit_table(("excluded because", "labels"), [(it.reason, it.labels) for it in found.left_out], empty="")
    for text in (*found.blockers, *found.warnings):
        talk(text)


def retrain(
    kind: Annotated[VerifierKind, typer.Option(help="The kind of verifier to train.")] = "feature",
    method: Annotated[LanguageTraining, typer.Option(help="How a language model judges.")] = "era",
    base_model: BaseModel = None,
    lora_rank: LoraRank = 16,
    max_labels: Annotated[int | None, typer.Option(min=1, help="Maximum labels.")] = None,
    target_precision: Annotated[
        float, typer.Option(help="Required precision of accepted variants; from 0.5 to below 1.")
    ] = 0.95,
    compare_methods: Annotated[
        bool, typer.Option("--compare-methods", help="Train a language model with both methods and compare them.")
    ] = False,
    sft: SftOptions = None,
    seed: Seed = 0,
    elsewhere: Elsewhere = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Train a verifier on people's labels; the first becomes champion, later ones go to the gate."""
    with open_line(read_settings()) as line:
        run = line.call(
            learning.retrain_verifier,
            kind=kind,
            method=method,
            base_model=base_model,
            lora_rank=lora_rank or None,
            max_labels=max_labels,
            target_precision=target_precision,
            compare_methods=compare_methods,
            sft=named_values(sft or (), where="--sft"),
            seed=seed,
            elsewhere=elsewhere,
        )
        if wait:
            run = wait_for(line, run)
        gate = run.result.get("followed_by")
        compared = line.call(runs.show_run, run_id=gate) if isinstance(gate, str) else None
    emit_json(run) if as_json else emit_run(run)
    if compared is not None:
        outcome = str(compared.result.get("outcome", compared.state)).replace("_", " ")
        talk(f"gate: {outcome}; `sagedesk model show {run.result.get('model_id')}` shows the figures")


def refresh(
    base_model: BaseModel = None,
    types: Types = None,
    sft_epochs: Annotated[float, typer.Option(help="Epochs of fine-tuning on accepted variants.")] = 1.0,
    skip_sft: Annotated[bool, typer.Option("--skip-sft", help="Skip fine-tuning on accepted variants.")] = False,
    lora_rank: LoraRank = 16,
    sft: SftOptions = None,
    grpo_steps: Annotated[int, typer.Option(min=0, help="Steps of reinforcement (GRPO); 0 skips it.")] = 100,
    group_size: Annotated[int, typer.Option(min=2, help="Candidates per prompt.")] = 8,
    grpo: GrpoOptions = None,
    vllm: Annotated[VllmMode, typer.Option(help="Sampling with vLLM.")] = "off",
    vllm_url: Annotated[str | None, typer.Option(help="Address of the vLLM server, for `--vllm server`.")] = None,
    comparison_questions: Annotated[int, typer.Option(min=1, help="Held-out questions for the comparison.")] = 20,
    seed: Seed = 0,
    elsewhere: Elsewhere = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a generator on accepted variants, reinforce it with the champion verifier, and compare."""
    with open_line(read_settings()) as line:
        run = line.call(
            learning.refresh_generator,
            base_model=base_model,
            types=chosen_types(types),
            sft_epochs=sft_epochs,
            lora_rank=lora_rank or None,
            sft=named_values(sft or (), where="--sft"),
            grpo_steps=grpo_steps,
            group_size=group_size,
            grpo=named_values(grpo or (), where="--grpo"),
            vllm=vllm,
            vllm_url=vllm_url,
            comparison_questions=comparison_questions,
            skip_sft=skip_sft,
            seed=seed,
            elsewhere=elsewhere,
        )
        if wait:
            run = wait_for(line, run)
    emit_json(run) if as_json else emit_run(run)


def schedule(
    role: Annotated[
        ModelRole | None, typer.Argument(metavar="ROLE", help="The role to schedule; all if omitted.")
    ] = None,
    after_decisions: Annotated[int | None, typer.Option(min=1, help="Due after this number of new decisions.")] = None,
    weekly: Annotated[
        str | None, typer.Option(metavar="DAY@HOUR", help="Due every week at an hour in UTC, for example monday@2.")
    ] = None,
    may_start: Annotated[
        bool, typer.Option("--may-start/--propose", help="Start training when it is due, or only propose it.")
    ] = False,
    never: Annotated[bool, typer.Option("--never", help="Never due: train only when someone starts it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set when training of a role is due; without options, show the schedules and what is due now."""
    is_setting = after_decisions is not None or weekly is not None or may_start or never
    if is_setting and role is None:
        raise InputError("name the role to schedule: verifier or generator")
    with open_line(read_settings()) as line:
        if role is not None and is_setting:
            weekday, hour = (None, None) if weekly is None else _weekly(weekly)
            line.call(
                schedules.set_schedule,
                role=role,
                after_decisions=after_decisions,
                weekday=weekday,
                hour=hour,
                may_start=may_start,
            )
        found = [it for it in line.call(schedules.list_schedules) if role in (None, it.role)]
        due = [it for it in line.call(schedules.due) if role in (None, it.role)]
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("role", "after decisions", "weekly", "when due", "set by", "at"),
        [
            (it.role, it.after_decisions, _day_at_hour(it), "starts" if it.may_start else "is proposed", it.updated_by,
             it.updated_at)
            for it in found
        ],
        empty="no schedule: training runs only when someone starts it",
    )  # fmt: skip
    for one in due:
        talk(f"due now: {one.role}, {one.reason}")


def _day_at_hour(it: Schedule) -> str | None:
    return None if it.weekday is None or it.hour is None else f"{_WEEKDAYS[it.weekday]}@{it.hour}"


def _weekly(text: str) -> tuple[int, int]:
    """Raises InputError."""
    day, _, hour = text.lower().partition("@")
    if day not in _WEEKDAYS or not hour.isdecimal():
        raise InputError(f"--weekly {text!r}: use a day and an hour in UTC, for example monday@2")
    return _WEEKDAYS.index(day), int(hour)
