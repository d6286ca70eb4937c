"""`sagedesk model ...`: list generators and verifiers, compare them, promote one, train them."""

from typing import Annotated

import typer

from data.records import RunState, VerdictTarget
from training.gate_conclusion import conclusion
from training.gate_report import GateReport, TargetComparison
from ui.commands.line import Line, open_line
from ui.commands.model_training import Role, preview, refresh, retrain, schedule
from ui.commands.output import AsJson, Limit, emit_facts, emit_json, emit_table, talk, wait_for
from ui.commands.run import Wait, emit_run
from ui.desk import embedded_models, run_reports
from ui.desk.model_info import ModelInfo
from ui.desk.settings import read_settings
from ui.desk.usecases import gates, model_promotion, models, runs

app = typer.Typer(help="Models: generators and verifiers.", no_args_is_help=True)

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="A registered model's id, as `model list` shows it.")]
Note = Annotated[str, typer.Option(help="The reason, in your words; kept in the sign-off.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the models, and which are in use."""
    with open_line(read_settings()) as line:
        found = line.call(models.list_models)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ("model", "role", "version", "kind", "alias", "files here", "folder"),
        [
            (it.model_id or "-", it.role, it.version, it.kind, it.aliases or None, it.is_at_hand, it.folder)
            for it in found
        ],
        empty="no models yet; `sagedesk model fetch` fetches the embedded ones",
    )


@app.command()
def show(model_id: ModelId, as_json: AsJson = False) -> None:
    """Show one registered model: its origin, its comparison with the champion, and its sign-offs."""
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
            ("gate", None if found.gate is None else found.gate.outcome),
            ("gate run", found.gate_run_id),
        ]
    )
    if found.gate is not None:
        _emit_gate(found.gate)
    for fault in found.unreadable:
        talk(fault)
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
    """Send a verifier to the gate: compare it with the champion on people's blind labels of held-out questions."""
    with open_line(read_settings()) as line:
        run = line.call(gates.compare_models, model_id=model_id)
        if wait:
            run = wait_for(line, run)
        differing = line.call(gates.flipped, run_id=run.run_id, limit=flips) if run.state == "done" else []
    if as_json:
        emit_json(run)
        return
    report = run_reports.gate_of_run(run)
    if report is None:
        emit_run(run)
        return
    emit_facts([("run", run.run_id), ("gate", report.outcome)])
    _emit_gate(report)
    emit_table(
        ("variant", "type", "target", "people", "champion", "challenger", "text"),
        [
            (it.variant_id, it.variant_type, it.target, it.truth, it.champion, it.challenger, it.variant_context)
            for it in differing
        ],
        empty="both verifiers judge every labelled variant alike",
    )


@app.command()
def promote(
    model_id: ModelId,
    note: Note,
    despite_gate: Annotated[
        bool,
        typer.Option("--despite-gate", help="Promote it without a passed gate; the sign-off says so."),
    ] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Make a registered model the champion, and have a verifier judge the review queue again."""
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
    """Put the previous champion back in use; a verifier judges the review queue again. Twice changes nothing."""
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
    """Download the embedded models into the cache, unless they are there."""
    fetched = embedded_models.fetch_embedded(talk)
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


def _emit_gate(report: GateReport) -> None:
    """Both verifiers by target, with the 95 % interval of their difference; then what follows from it, and why."""
    emit_table(
        ("target", "measure", "champion", "challenger", "difference", "from", "to"),
        [row for target, one in report.targets.items() for row in _measures(target, one)],
        empty="nothing was measured",
    )
    talk(conclusion(report))
    for reason in report.reasons:
        talk(reason)


def _measures(target: VerdictTarget, one: TargetComparison) -> list[tuple[object, ...]]:
    """One row per measure; none where the two judged no item both."""
    before, after, difference = one.champion, one.challenger, one.difference
    if before is None or after is None:
        return []
    measures = (
        ("balanced accuracy", before.balanced_accuracy, after.balanced_accuracy, difference.balanced_accuracy),
        ("PR-AUC (failing variants)", before.fail_pr_auc, after.fail_pr_auc, difference.fail_pr_auc),
        ("calibration error (ECE)", before.ece, after.ece, difference.ece),
    )
    return [
        (target, name, first, second, *((None, None, None) if it is None else (it.mean, it.low, it.high)))
        for name, first, second, it in measures
    ]


def _wait_for_the_queue(line: Line) -> None:
    """Until the review queue is judged again."""
    states: tuple[RunState, ...] = ("running", "queued")
    for state in states:
        for run in line.call(runs.list_runs, kind="verify", state=state):
            wait_for(line, run)
