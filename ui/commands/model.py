"""`sagedesk model ...`: generators and verifiers: which are there, how they compare, which is in use, training them."""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from data.records import RunState
from ui.commands.line import Line, open_line
from ui.commands.model_training import Role, preview, refresh, retrain, schedule
from ui.commands.output import AsJson, Limit, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.desk import environment
from ui.desk.model_info import ModelInfo
from ui.desk.settings import read_settings
from ui.desk.usecases import gates, model_promotion, models, runs

app = typer.Typer(help="Models: generators and verifiers.", no_args_is_help=True)

_FIGURES: Final = ("balanced_accuracy", "fail_pr_auc", "ece")

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="A registered model's id, as `model list` shows it.")]
Note = Annotated[str, typer.Option(help="Why, in your words; it stands in the sign-off.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the models at hand, and which is in use."""
    with open_line(read_settings()) as line:
        found = line.call(models.list_models)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("model", "role", "version", "kind", "alias", "at hand", "folder"),
        [
            (it.model_id or "-", it.role, it.version, it.kind, it.aliases or None, it.is_at_hand, it.folder)
            for it in found
        ],
        empty="no models yet; `sagedesk model fetch` fetches the embedded ones",
    )


@app.command()
def show(model_id: ModelId, as_json: AsJson = False) -> None:
    """Show one registered model: what it came from, how it compares, who signed for it."""
    with open_line(read_settings()) as line:
        found = line.call(models.show_model, model_id=model_id)
    if as_json:
        emit_json(found)
        return
    emit_facts(
        [
            *_facts(found.info),
            *((name.replace("_", " "), found.origin.get(name)) for name in ("data", "seed", "code_version")),
            ("files", tuple(sorted(found.files))),
            ("gate", None if found.gate is None else found.gate.get("outcome")),
            ("gate run", found.gate_run_id),
        ]
    )
    if found.gate is not None:
        _emit_gate(found.gate)
    if found.sign_offs:
        emit_table(
            ("signed", "by", "action", "in use", "before", "gate", "note"),
            [
                (it.signed_at, it.signed_by, it.action, it.model_id, it.previous_id, it.outcome or None, it.note)
                for it in found.sign_offs
            ],
            empty="",
        )


@app.command()
def compare(model_id: ModelId, wait: Wait = True, flips: Limit = 20, as_json: AsJson = False) -> None:
    """Send a verifier to the gate: against the champion on the blind labels that nothing learnt from."""
    with open_line(read_settings()) as line:
        run = line.call(gates.compare_models, model_id=model_id)
        if wait:
            run = wait_for(line, run)
        differing = line.call(gates.flipped, run_id=run.run_id, limit=flips) if run.state == "done" else []
    if as_json:
        emit_json(run)
        return
    report = run.result.get("gate")
    if not isinstance(report, Mapping):
        emit_run(run)
        return
    emit_facts([("run", run.run_id), ("gate", report.get("outcome"))])
    _emit_gate(report)
    emit_table(
        ("variant", "type", "target", "people", "champion", "challenger", "text"),
        [
            (it.variant_id, it.variant_type, it.target, it.truth, it.champion, it.challenger, it.variant_context)
            for it in differing
        ],
        empty="the two judge every labelled variant alike",
    )


@app.command()
def promote(
    model_id: ModelId,
    note: Note,
    despite_gate: Annotated[
        bool,
        typer.Option("--despite-gate", help="Although it did not pass, or was not compared; the sign-off says so."),
    ] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Make a registered model the champion, and have it judge what waits for review."""
    with open_line(read_settings()) as line:
        promoted = line.call(model_promotion.promote_model, model_id=model_id, note=note, despite_gate=despite_gate)
        if wait:
            _wait_for_the_queue(line)
    emit_json(promoted) if as_json else emit_facts(_facts(promoted))


@app.command()
def rollback(
    role: Role,
    note: Note,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Put the champion before back in use, and have it judge what waits for review; done twice, all is as it was."""
    with open_line(read_settings()) as line:
        found = line.call(model_promotion.rollback_model, role=role, note=note)
        if wait:
            _wait_for_the_queue(line)
    if as_json:
        emit_json(found)
    elif found is None:
        talk("no registered generator is in use any more")
    else:
        emit_facts(_facts(found))


@app.command()
def fetch(as_json: AsJson = False) -> None:
    """Fetch the embedded models into the cache; those that are there are left alone."""
    fetched = environment.fetch_embedded(talk)
    emit_json(fetched) if as_json else emit_facts([(it.name, it.folder) for it in fetched])


for verb in (preview, retrain, refresh, schedule):
    app.command()(verb)


def _facts(it: ModelInfo) -> list[tuple[str, object]]:
    return [
        ("model", it.model_id),
        ("role", it.role),
        ("version", it.version),
        ("kind", it.kind),
        ("alias", it.aliases or None),
        ("created", it.created_at),
        ("run", it.run_id),
        ("parent", it.parent),
        ("folder", it.folder),
    ]


def _emit_gate(report: Mapping[str, object]) -> None:
    """The figures of both by target, with the interval of their difference; then why the gate said what it said."""
    targets = report.get("targets")
    rows = targets.items() if isinstance(targets, Mapping) else ()
    emit_table(
        ("target", "figure", "champion", "challenger", "difference", "from", "to"),
        [
            (target, name.replace("_", " "), *(_of(of, side, name) for side in ("champion", "challenger")), *spread)
            for target, of in rows
            for name in _FIGURES
            for spread in [tuple(_of(of, "difference", name, end) for end in ("mean", "low", "high"))]
        ],
        empty="nothing was measured",
    )
    reasons = report.get("reasons")
    for reason in reasons if isinstance(reasons, list | tuple) else ():
        talk(str(reason))


def _of(found: object, *path: str) -> object:
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _wait_for_the_queue(line: Line) -> None:
    """Until what waits for review is judged anew."""
    states: tuple[RunState, ...] = ("running", "queued")
    for state in states:
        for run in line.call(runs.list_runs, kind="verify", state=state):
            wait_for(line, run)
