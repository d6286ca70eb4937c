"""`sagedesk variant ...`: making variants, having them judged, looking at them."""

from typing import Annotated

import typer

from data.records import (
    VARIANT_TYPE_KEYS,
    QuestionId,
    RunId,
    VariantId,
    VariantOutcome,
    VariantTypeKey,
)
from ui.commands.line import open_line
from ui.commands.output import AsJson, Limit, cell, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.desk.settings import read_settings
from ui.desk.submissions import Scope, VerifierChoice
from ui.desk.usecases import generation, questions, verification
from ui.desk.usecases.generation import BackendName
from ui.desk.usecases.questions import VariantDetail

app = typer.Typer(help="Variants: questions made from others.", no_args_is_help=True)

# Typer takes no list of literals.
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar=f"<{'|'.join(VARIANT_TYPE_KEYS)}>", help="May be repeated; all if omitted."),
]


@app.command()
def generate(
    backend: Annotated[BackendName, typer.Option(help="What generates the variants.")] = "rules",
    types: Types = None,
    benchmark: Annotated[str | None, typer.Option(help="Only questions of this benchmark.")] = None,
    question_ids: Annotated[
        list[str] | None, typer.Option("--question", help="Only this question; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum questions.")] = None,
    per_question: Annotated[
        int, typer.Option(min=1, max=generation.MAX_PER_QUESTION, help="Candidates per question and type.")
    ] = 1,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Sampling temperature; 0 is greedy.")] = 0.8,
    top_p: Annotated[float, typer.Option(min=0.01, max=1, help="Nucleus sampling threshold.")] = 0.95,
    max_new_tokens: Annotated[int, typer.Option(min=1, max=8192, help="Maximum tokens per reply.")] = 256,
    seed: Annotated[int, typer.Option(help="The same seed gives the same variants.")] = 0,
    model: Annotated[str | None, typer.Option(help="Model id or folder; the desk's default if omitted.")] = None,
    then_verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Verify the variants and queue them for review.")
    ] = True,
    prompt_price: Annotated[
        float | None, typer.Option(help="Price per million prompt tokens, for the estimate.")
    ] = None,
    generated_price: Annotated[
        float | None, typer.Option(help="Price per million generated tokens, for the estimate.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate requests, tokens and cost.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Generate variants, check their contracts and, by default, verify and queue them."""
    wanted = chosen_types(types)
    of = None if question_ids is None else [QuestionId(one) for one in question_ids]
    with open_line(read_settings()) as line:
        if dry_run:
            estimate = line.call(
                generation.estimate,
                backend=backend,
                types=wanted,
                benchmark=benchmark,
                question_ids=of,
                limit=limit,
                per_question=per_question,
                max_new_tokens=max_new_tokens,
                prompt_price_per_million=prompt_price,
                generated_price_per_million=generated_price,
            )
            if as_json:
                emit_json(estimate)
            else:
                emit_facts(
                    [
                        ("questions", estimate.questions),
                        ("requests", estimate.requests),
                        ("prompt tokens (approx.)", estimate.prompt_tokens),
                        ("generated tokens (max)", estimate.generated_tokens),
                        ("cost (max)", estimate.cost),
                    ]
                )
            return
        run = line.call(
            generation.start_generation,
            backend=backend,
            types=wanted,
            benchmark=benchmark,
            question_ids=of,
            limit=limit,
            per_question=per_question,
            temperature=temperature,
            top_p=top_p,
            max_new_tokens=max_new_tokens,
            seed=seed,
            model=model,
            then_verify=then_verify,
        )
        if wait:
            run = wait_for(line, run)
    emit_json(run) if as_json else emit_run(run)


@app.command()
def verify(
    verifier: Annotated[VerifierChoice, typer.Option(help="The verifier that judges them.")] = "champion",
    scope: Annotated[Scope, typer.Option(help="Which variants to judge.")] = "unverified",
    run_id: Annotated[str | None, typer.Option("--run", help="Only variants that this run made.")] = None,
    variant_ids: Annotated[
        list[str] | None, typer.Option("--variant", help="Only this variant; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum variants.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model id or folder, for a verifier other than the champion.")
    ] = None,
    then_queue: Annotated[bool, typer.Option("--queue/--no-queue", help="Queue the variants for review.")] = True,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Verify variants on the three dimensions."""
    with open_line(read_settings()) as line:
        run = line.call(
            verification.start_verification,
            verifier=verifier,
            scope=scope,
            run_id=None if run_id is None else RunId(run_id),
            variant_ids=None if variant_ids is None else [VariantId(one) for one in variant_ids],
            limit=limit,
            model=model,
            then_queue=then_queue,
        )
        if wait:
            run = wait_for(line, run)
    emit_json(run) if as_json else emit_run(run)


@app.command("list")
def list_(
    variant_type: Annotated[VariantTypeKey | None, typer.Option("--type", help="Only this type.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only variants that this run made.")] = None,
    outcome: Annotated[VariantOutcome | None, typer.Option(help="Only variants with this outcome.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Rows to skip.")] = 0,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List variants, newest first."""
    with open_line(read_settings()) as line:
        page = line.call(
            questions.list_variants,
            variant_type=variant_type,
            run_id=None if run_id is None else RunId(run_id),
            outcome=outcome,
            offset=offset,
            limit=limit,
        )
    if as_json:
        emit_json(page)
        return
    emit_table(
        ("variant", "type", "question", "contract", "verdicts", "context"),
        [
            (
                it.variant.variant_id,
                it.variant.variant_type,
                it.variant.question_id,
                it.passes_contract,
                _verdicts(it),
                it.variant.context,
            )
            for it in page.items
        ],
        empty="no variant matches; `sagedesk variant generate` generates some",
    )
    if page.total > len(page.items):
        talk(f"{offset + 1} to {offset + len(page.items)} of {page.total}")


@app.command()
def show(
    variant_id: Annotated[str, typer.Argument(metavar="VARIANT", help="A variant's id.")], as_json: AsJson = False
) -> None:
    """Show one variant with its recipe, contract checks and verdicts."""
    with open_line(read_settings()) as line:
        detail = line.call(questions.show_variant, variant_id=VariantId(variant_id))
    if as_json:
        emit_json(detail)
        return
    variant = detail.variant
    emit_facts(
        [
            ("variant", variant.variant_id),
            ("type", variant.variant_type),
            ("question", variant.question_id),
            ("original", detail.question.context),
            ("context", variant.context),
            *((chr(ord("A") + index), option) for index, option in enumerate(variant.options)),
            ("answer", chr(ord("A") + variant.answer_index)),
            ("control", variant.is_control),
            ("made by", f"{variant.recipe.backend} {variant.recipe.model}"),
            ("prompt", variant.recipe.prompt_version),
            ("seed", variant.recipe.seed),
            ("run", variant.run_id),
            *((f"verdict {it.target}", f"{cell(it.probability)} by {it.verifier_version}") for it in detail.verdicts),
        ]
    )
    emit_table(
        ("check", "holds", "required", "detail"),
        [(it.check, it.holds, it.is_required, it.detail) for it in detail.checks],
        empty="its contract has not been checked",
    )


def chosen_types(names: list[str] | None) -> tuple[VariantTypeKey, ...]:
    """What `Types` was given; all types where nothing was.

    Raises:
        typer.BadParameter: a name is no variant type.
    """
    known: dict[str, VariantTypeKey] = {key: key for key in VARIANT_TYPE_KEYS}
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is not one of {', '.join(map(repr, VARIANT_TYPE_KEYS))}.", param_hint="--type"
            )
    return tuple(known[name] for name in names) if names else VARIANT_TYPE_KEYS


def _verdicts(detail: VariantDetail) -> str:
    return " ".join(f"{it.target} {cell(it.probability)}" for it in detail.verdicts) or "-"
