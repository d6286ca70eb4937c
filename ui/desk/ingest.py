"""Brings a finished run's outputs into the store, with one function per kind, and says which run follows.

Each runs inside the transaction that marks its run as done, and is idempotent.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from annotation.queue import blind_share, enqueue
from data.arrow import contract_checks_from, questions_from, variants_from, verdicts_from
from data.records import Run, VariantId
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from engine.jobs.folder import RunFolder
from training.examples import learnt_from_sample
from ui.desk.cluster_parts import draw_seed, ensure_parts
from ui.desk.models_in_use import NO_VERIFIER, champion_judge, champion_verifier
from ui.desk.runs.submission import Ingest, Ingested
from ui.desk.settings import Settings
from ui.desk.submissions import verification_submission


def ingest_table(settings: Settings, now: Callable[[], datetime]) -> Mapping[str, Ingest]:
    """Ingest functions by job kind, except trainings (`ui.desk.model_ingest`); for the supervisor."""

    def imported(connection: Connection, folder: RunFolder, _: Run) -> Ingested:
        questions = QuestionTable(connection).upsert(questions_from(folder.read_output("questions")), now=now())
        variants = VariantTable(connection).upsert(variants_from(folder.read_output("variants")))
        ContractCheckTable(connection).upsert(contract_checks_from(folder.read_output("contract_checks")))
        refused, refused_variants = (_count(folder, name) for name in ("refused", "refused_variants"))
        return Ingested(
            {
                "questions": {
                    "new": questions.new,
                    "same": questions.same,
                    "changed": questions.changed,
                    "refused": refused - refused_variants,
                },
                # A variant's id depends on its content, so a variant never changes.
                "variants": {"new": variants.new, "same": variants.same, "changed": 0, "refused": refused_variants},
            }
        )

    def generated(connection: Connection, folder: RunFolder, run: Run) -> Ingested:
        variants = list(variants_from(folder.read_output("variants")))
        counts = VariantTable(connection).upsert(variants)
        ContractCheckTable(connection).upsert(contract_checks_from(folder.read_output("contract_checks")))
        outcome: dict[str, object] = {"variants": {"new": counts.new, "same": counts.same}}
        if not run.settings.get("then_verify") or not variants:
            return Ingested(outcome)
        champion = champion_verifier(settings)
        if champion is None:
            return Ingested({**outcome, "not_verified": NO_VERIFIER})
        made = [variant.variant_id for variant in variants]
        rows = VariantTable(connection).arrow(ids=made, unverified_by=champion_judge(champion))
        unverified = [VariantId(one) for one in rows["variant_id"].to_pylist()]
        if not unverified:
            return Ingested(outcome)
        return Ingested(
            outcome, verification_submission(connection, settings, verifier="champion", variant_ids=unverified)
        )

    def verified(connection: Connection, folder: RunFolder, run: Run) -> Ingested:
        verdicts = list(verdicts_from(folder.read_output("verdicts")))
        written = VerdictTable(connection).upsert(verdicts)
        ContractCheckTable(connection).upsert(contract_checks_from(folder.read_output("contract_checks")))
        queued = 0
        if run.settings.get("then_queue"):
            judged = dict.fromkeys(verdict.variant_id for verdict in verdicts)
            ids = [one for one in judged if one not in learnt_from_sample()]
            ensure_parts(connection, now(), variant_ids=ids)
            queued = enqueue(
                connection,
                variant_ids=ids,
                blind_share=blind_share(connection, settings.blind_share),
                seed=draw_seed(connection, now()),
                now=now(),
            )
        return Ingested({"verdicts": written, "queued": queued})

    def compared(_connection: Connection, _folder: RunFolder, _run: Run) -> Ingested:
        return Ingested({})  # the run's result is all; a lead decides

    return {"import": imported, "generate": generated, "verify": verified, "gate-verifier": compared}


def _count(folder: RunFolder, name: str) -> int:
    result = folder.result()
    return 0 if result is None else int(str(result.counts.get(name, 0)))
