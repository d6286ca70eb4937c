import json
from typing import Any

from annotation.labels import label_config, label_config_hash
from annotation.tasks import annotation_payload, page_text, prediction_payload, task_payload, unique_id
from data.records import AnnotationId, VariantId, Verdict, VerdictTarget
from tests.annotation.labelling import NOW, a_question, a_variant, an_annotation

SAID: list[tuple[VerdictTarget, float | None, bool | None]] = [
    ("TC", 0.9, True),
    ("LC", 0.3, False),
    ("AU", None, None),
    ("valid", 0.2, False),
]
VERDICTS = [
    Verdict(VariantId("v"), target, probability, label, "feature-1", "feature", None, NOW)
    for target, probability, label in SAID
]


def test_a_task_names_its_variant_and_shows_both_pages() -> None:
    question = a_question()

    task: dict[str, Any] = task_payload(
        a_variant(question, 1), question, VERDICTS, type_name="Negation", definition="Asks for what will not happen."
    )

    data = task["data"]
    assert data["external_id"] == a_variant(question, 1).variant_id
    assert "A  She pours.   <- marked answer" in data["original"]
    assert "B  option 1 1   <- marked answer" in data["variant"]
    assert data["definition"] == "Asks for what will not happen."


def test_nothing_of_a_verdict_is_in_a_blind_task() -> None:
    question = a_question()

    task = json.dumps(task_payload(a_variant(question, 1), question, [], type_name="", definition=""))

    assert "prediction" not in task
    assert "score" not in task


def test_a_prediction_holds_the_answers_that_parsed_and_the_lowest_probability() -> None:
    prediction: dict[str, Any] | None = prediction_payload(VERDICTS)

    assert prediction is not None
    assert [each["from_name"] for each in prediction["result"]] == ["tc", "lc"]
    assert [each["value"]["choices"] for each in prediction["result"]] == [["yes"], ["no"]]
    assert (prediction["score"], prediction["model_version"]) == (0.3, "feature-1")
    assert prediction_payload(VERDICTS[2:]) is None


def test_a_label_is_never_sent_as_ground_truth() -> None:
    payload = annotation_payload(an_annotation("a", VariantId("v"), is_skipped=True), completed_by=3)

    assert (payload["ground_truth"], payload["was_cancelled"], payload["completed_by"]) == (False, True, 3)


def test_text_that_no_database_keeps_is_replaced_and_all_else_is_literal() -> None:
    page = page_text("a\x00b \ud83d $5 <script> مرحبا 12", ["😀"], None)

    assert page == "a\ufffdb \ufffd $5 <script> مرحبا 12\n\nA  😀"
    page.encode("utf-8")


def test_the_unique_id_is_the_same_every_time_and_differs_by_server() -> None:
    one = unique_id(AnnotationId("a_1"), "s")

    assert one == unique_id(AnnotationId("a_1"), "s")
    assert one != unique_id(AnnotationId("a_1"), "t")


def test_the_hash_of_the_config_ignores_how_it_is_written_down() -> None:
    rewritten = label_config().replace('" />', '"/>').replace("><", ">\n  <")

    assert rewritten != label_config()
    assert label_config_hash(rewritten) == label_config_hash()
    assert label_config_hash(label_config().replace('name="tc"', 'name="tcx"')) != label_config_hash()
