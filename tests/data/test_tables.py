"""Questions, variants, contract checks, verdicts, audit and policies over a real DuckDB in memory."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from data.arrow import QUESTION_SCHEMA, VARIANT_SCHEMA
from data.errors import NotFoundError, StoreError
from data.ids import question_id, variant_id
from data.records import (
    ContractCheck,
    Question,
    QuestionId,
    Recipe,
    RunId,
    Variant,
    VariantId,
    Verdict,
    VerdictMethod,
    VerdictTarget,
)
from data.store import Connection, Store
from data.tables.audit import AuditTable
from data.tables.contract_checks import ContractCheckTable
from data.tables.policies import PolicyTable
from data.tables.questions import QuestionCounts, QuestionTable
from data.tables.variants import Judge, VariantCounts, VariantTable
from data.tables.verdicts import VerdictTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def connection() -> Iterator[Connection]:
    store = Store.in_memory(now=lambda: NOON)
    with store.write() as connection:
        yield connection
    store.close()


def a_question(context: str = "Ann boils water", *, key: str = "train/1", **changes: object) -> Question:
    options = ("She makes tea", "She flies")
    values: dict[str, Any] = {
        "context": context,
        "options": options,
        "answer_index": 0,
        "benchmark": "mini",
        "source_key": key,
    }
    values |= changes
    return Question(question_id=question_id(values["context"], values["options"], values["answer_index"]), **values)


def a_variant(context: str = "Bob boils water", **changes: object) -> Variant:
    question = a_question().question_id
    values: dict[str, Any] = {
        "question_id": question,
        "variant_type": "restatement",
        "context": context,
        "options": ("He makes tea", "He flies"),
        "answer_index": 0,
        "is_control": False,
        "shuffle_seed": 7,
        "recipe": Recipe("rules", "rules-1", "p1", "{}", 3),
        "run_id": RunId("r_1"),
        "created_at": NOON,
    }
    values |= changes
    made = variant_id(values["question_id"], values["variant_type"], context, values["options"], values["answer_index"])
    return Variant(variant_id=made, **values)


def a_verdict(variant: str, target: VerdictTarget, label: bool | None, **changes: object) -> Verdict:
    values: dict[str, Any] = {"verifier_version": "v1", "method": "feature", "raw": None, "created_at": NOON}
    values |= changes
    probability = None if label is None else (0.9 if label else 0.1)
    return Verdict(VariantId(variant), target, probability, label, **values)


def test_importing_the_same_questions_twice_changes_nothing(connection: Connection) -> None:
    table = QuestionTable(connection)
    batch = [a_question("one", key="1"), a_question("two", key="2")]

    first = table.upsert(batch, now=NOON)
    second = table.upsert(batch, now=NOON + timedelta(days=1))

    assert first == QuestionCounts(new=2, same=0, changed=0)
    assert second == QuestionCounts(new=0, same=2, changed=0)
    assert table.get(batch[0].question_id) == batch[0]


def test_other_content_under_a_known_source_key_supersedes_the_older_question(connection: Connection) -> None:
    table = QuestionTable(connection)
    older, newer = a_question("old words", key="1"), a_question("new words", key="1")
    table.upsert([older], now=NOON)

    counts = table.upsert([newer], now=NOON)

    assert counts == QuestionCounts(new=0, same=0, changed=1)
    assert table.page().items == (newer,)
    assert set(table.page(include_superseded=True).items) == {older, newer}
    assert table.get(older.question_id) == older
    assert table.count() == 1


def test_two_contents_of_one_source_key_in_a_batch_leave_the_last_current(connection: Connection) -> None:
    table = QuestionTable(connection)
    batch = [a_question("first", key="1"), a_question("second", key="1")]

    first = table.upsert(batch, now=NOON)
    second = table.upsert(batch, now=NOON)

    assert first == QuestionCounts(new=1, same=0, changed=1)
    assert second == QuestionCounts(new=0, same=2, changed=0)
    assert table.page().items == (batch[1],)


def test_going_back_to_an_earlier_file_makes_the_earlier_question_current_again(connection: Connection) -> None:
    table = QuestionTable(connection)
    older, newer = a_question("old words", key="1"), a_question("new words", key="1")
    for question in (older, newer, older):
        table.upsert([question], now=NOON)

    assert table.page().items == (older,)


def test_a_question_that_the_file_still_holds_under_another_key_is_not_superseded(connection: Connection) -> None:
    table = QuestionTable(connection)
    doubled = a_question("doubled", key="1")
    table.upsert([doubled], now=NOON)

    counts = table.upsert([a_question("other", key="1"), a_question("doubled", key="2")], now=NOON)

    assert counts == QuestionCounts(new=0, same=1, changed=1)
    assert {question.context for question in table.page().items} == {"doubled", "other"}


@pytest.mark.parametrize("search", ["KETTLE", "kettle'; DROP TABLE question; --", "100%", "a_b", "\\"])
def test_search_takes_whatever_is_typed_as_plain_text(connection: Connection, search: str) -> None:
    table = QuestionTable(connection)
    texts = ["The kettle'; DROP TABLE question; -- sings", "sure, 100% and a_b \\", "nothing here"]
    table.upsert([a_question(text, key=str(number)) for number, text in enumerate(texts)], now=NOON)

    found = table.page(search=search)

    assert [search.lower() in question.context.lower() for question in found.items] == [True]
    assert found.total == 1
    assert table.count() == 3


def test_text_comes_back_as_it_was_whatever_is_in_it(connection: Connection) -> None:
    texts = [
        "a\x00b",
        "<script>alert(1)</script>",
        "\u202eRTL \u200b",
        "e\u0301 and \u00e9",
        "\U0001f9ea",
        " \r\n ",
        "$5 {x}",
    ]
    questions = [a_question(text, key=text, options=(text, "")) for text in texts]

    QuestionTable(connection).upsert(questions, now=NOON)

    assert QuestionTable(connection).by_ids([question.question_id for question in questions]) == {
        question.question_id: question for question in questions
    }


def test_questions_come_in_the_order_of_numbers_in_their_keys(connection: Connection) -> None:
    table = QuestionTable(connection)
    keys = ["train/10", "train/9", "dev/2", "train/100", "odd"]
    table.upsert([a_question(key, key=key) for key in keys], now=NOON)

    assert table.arrow()["source_key"].to_pylist() == ["dev/2", "odd", "train/9", "train/10", "train/100"]
    assert table.page(offset=1, limit=2).items[0].source_key == "odd"
    assert table.page(offset=1, limit=2).total == 5


def test_the_arrow_form_has_the_schema_and_only_what_was_asked(connection: Connection) -> None:
    table = QuestionTable(connection)
    unanswered = a_question("no key", key="2", answer_index=None)
    table.upsert([a_question(key="1"), unanswered, a_question("x", key="1", benchmark="other")], now=NOON)

    assert table.arrow().schema == QUESTION_SCHEMA
    assert table.arrow(benchmark="mini", answered_only=True).num_rows == 1
    assert table.arrow(limit=2).num_rows == 2
    assert table.arrow(ids=[unanswered.question_id])["context"].to_pylist() == ["no key"]
    assert table.arrow(ids=[]).num_rows == 0
    assert table.benchmarks() == [("mini", 2), ("other", 1)]


def test_questions_that_differ_in_case_and_order_form_a_duplicate_group(connection: Connection) -> None:
    table = QuestionTable(connection)
    one = a_question("Ann  boils water", key="1")
    two = a_question("ann boils WATER", key="2", options=("She flies", "She makes tea"), answer_index=1)
    table.upsert([one, two, a_question("else", key="3")], now=NOON)

    (group,) = table.duplicate_groups()

    assert set(group) == {one.question_id, two.question_id}


def test_a_missing_question_or_variant_is_named(connection: Connection) -> None:
    with pytest.raises(NotFoundError, match="q_none"):
        QuestionTable(connection).get(QuestionId("q_none"))
    with pytest.raises(NotFoundError, match="v_none"):
        VariantTable(connection).get(VariantId("v_none"))


def test_an_empty_batch_is_fine_everywhere(connection: Connection) -> None:
    assert QuestionTable(connection).upsert([], now=NOON) == QuestionCounts(0, 0, 0)
    assert VariantTable(connection).upsert([]) == VariantCounts(0, 0)
    assert VerdictTable(connection).upsert([]) == 0
    ContractCheckTable(connection).upsert([])


def test_a_variant_keeps_every_field_and_its_first_recipe(connection: Connection) -> None:
    table = VariantTable(connection)
    first = a_variant(run_id=None, shuffle_seed=None, is_control=True)
    again = a_variant(created_at=NOON + timedelta(days=1))

    counts = [table.upsert([first, first]), table.upsert([again])]

    assert counts == [VariantCounts(new=1, same=1), VariantCounts(new=0, same=1)]
    assert table.get(first.variant_id) == first
    assert table.arrow().schema == VARIANT_SCHEMA


def test_variants_are_listed_by_type_question_run_and_outcome(connection: Connection) -> None:
    table = VariantTable(connection)
    accepted = a_variant("a", variant_type="negation", run_id=RunId("r_2"))
    rejected, open_one = a_variant("b"), a_variant("c")
    table.upsert([accepted, rejected, open_one])
    decide(connection, accepted.variant_id, "accepted")
    decide(connection, rejected.variant_id, "rejected")

    assert table.page(variant_type="negation").items == (accepted,)
    assert table.page(run_id=RunId("r_1")).total == 2
    assert table.page(question_id=QuestionId("q_none")).items == ()
    assert table.page(outcome="undecided").items == (open_one,)
    assert table.page(outcome="rejected").items == (rejected,)
    assert table.page(limit=1).total == 3
    assert table.accepted() == [accepted]
    assert table.count() == 3


def test_variants_without_a_verdict_of_a_version_are_found(connection: Connection) -> None:
    one, two = a_variant("a"), a_variant("b")
    VariantTable(connection).upsert([one, two])
    VerdictTable(connection).upsert([a_verdict(one.variant_id, "TC", True)])

    def unverified_by(version: str, method: VerdictMethod, *, leaving_out: Sequence[VariantId] = ()) -> set[str]:
        table = VariantTable(connection).arrow(unverified_by=Judge(version, method), leaving_out=leaving_out)
        return set(table["variant_id"].to_pylist())

    assert unverified_by("v1", "feature") == {two.variant_id}
    assert unverified_by("v1", "feature", leaving_out=[two.variant_id]) == set()
    assert unverified_by("v1", "ira") == {one.variant_id, two.variant_id}
    assert unverified_by("v2", "feature") == {one.variant_id, two.variant_id}


def test_a_variant_passes_its_contract_when_every_required_check_holds(connection: Connection) -> None:
    table = ContractCheckTable(connection)
    checks = [
        ContractCheck(VariantId("v_good"), "length", True, True, ""),
        ContractCheck(VariantId("v_good"), "style", False, False, "a hint only"),
        ContractCheck(VariantId("v_bad"), "length", False, True, "too short"),
    ]
    table.upsert(checks)

    assert table.of(VariantId("v_good")) == checks[:2]
    assert table.of(VariantId("v_unchecked")) == []
    outcomes = connection.execute("SELECT variant_id, passes FROM contract_outcome").fetchall()
    assert dict(outcomes) == {"v_good": True, "v_bad": False}


def test_a_later_check_replaces_the_earlier_within_and_across_batches(connection: Connection) -> None:
    table = ContractCheckTable(connection)
    failed = ContractCheck(VariantId("v"), "length", False, True, "too short")
    held = ContractCheck(VariantId("v"), "length", True, True, "")

    table.upsert([held, failed])
    after_one = table.of(VariantId("v"))
    table.upsert([held])

    assert after_one == [failed]
    assert table.of(VariantId("v")) == [held]


def test_a_verifier_that_judges_again_has_the_last_word_again(connection: Connection) -> None:
    """As after a rollback: its verdicts of before are replaced, by newer ones only."""
    table = VerdictTable(connection)
    first = a_verdict("v", "TC", True)
    other = a_verdict("v", "TC", False, verifier_version="v2", created_at=NOON + timedelta(hours=1))
    again = a_verdict("v", "TC", True, created_at=NOON + timedelta(hours=2))

    table.upsert([first, other])
    between = table.latest(VariantId("v"))
    table.upsert([again])
    table.upsert([first])

    assert between == [other]
    assert table.latest(VariantId("v")) == [again]


def test_the_latest_verdicts_are_those_of_the_version_that_spoke_last(connection: Connection) -> None:
    table = VerdictTable(connection)
    later = NOON + timedelta(hours=1)
    old = [a_verdict("v", target, True) for target in ("TC", "LC", "AU", "valid")]
    new = [a_verdict("v", target, False, verifier_version="v2", created_at=later) for target in ("AU", "TC")]
    table.upsert([*old, *new])

    assert table.latest(VariantId("v")) == [new[1], new[0]]
    assert table.latest(VariantId("none")) == []
    assert table.versions() == ["v2", "v1"]


def test_one_verdict_a_target_though_two_methods_judged_it(connection: Connection) -> None:
    table = VerdictTable(connection)
    by_era = a_verdict("v", "valid", True, method="era_packed")
    by_ira = a_verdict("v", "valid", False, method="ira", created_at=NOON + timedelta(minutes=1))
    unparsed = a_verdict("v", "TC", None, method="era_packed", raw="maybe")
    table.upsert([by_ira, by_era, unparsed])

    assert table.latest_for([VariantId("v"), VariantId("w")]) == {"v": [unparsed, by_ira]}


def test_an_older_verdict_never_overwrites_a_newer_one(connection: Connection) -> None:
    table = VerdictTable(connection)
    newer = a_verdict("v", "TC", True, created_at=NOON + timedelta(minutes=1))

    written = [table.upsert([a_verdict("v", "TC", False), newer]), table.upsert([a_verdict("v", "TC", False)])]

    assert written == [1, 0]
    assert table.latest(VariantId("v")) == [newer]


@pytest.mark.parametrize(
    ("labels", "is_valid"),
    [
        ({"TC": True, "LC": True, "AU": True}, True),
        ({"TC": True, "LC": False, "AU": None}, False),
        ({"TC": True, "LC": True, "AU": None}, None),
        ({"valid": False}, False),
    ],
)
def test_validity_is_the_product_of_the_dimensions(
    connection: Connection, labels: dict[VerdictTarget, bool | None], is_valid: bool | None
) -> None:
    VerdictTable(connection).upsert([a_verdict("v", target, label) for target, label in labels.items()])

    assert connection.execute("SELECT is_valid FROM variant_validity").fetchall() == [(is_valid,)]


def test_the_audit_lists_the_newest_first(connection: Connection) -> None:
    table = AuditTable(connection)
    for action in ("question import", "release create"):
        table.add(happened_at=NOON, actor="ann", action=action, subject="s", outcome="done", detail={"n": [1, "é"]})

    entries = table.recent(limit=1)

    assert [entry.action for entry in entries] == ["release create"]
    assert entries[0].detail == {"n": [1, "é"]}
    assert entries[0].happened_at == NOON


def test_a_policy_keeps_its_last_value_and_its_type(connection: Connection) -> None:
    table = PolicyTable(connection)
    before = table.get("blind_share", 0.3)
    table.set("blind_share", 0.5, "ann", NOON)
    table.set("blind_share", 1, "ann", NOON)
    table.set("guidelines", "v2", "ann", NOON)

    assert before == 0.3
    assert table.get("blind_share", 0.3) == 1.0
    assert table.get("guidelines", "v1") == "v2"
    with pytest.raises(StoreError, match="guidelines"):
        table.get("guidelines", 1)


def decide(connection: Connection, variant: VariantId, outcome: str) -> None:
    connection.execute(
        "INSERT INTO decision VALUES (?, ?, true, true, true, 'annotations', [], 'ann', ?)", [variant, outcome, NOON]
    )
