import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from annotation.inbound import InboundAnnotation, Unreadable, annotation_from, kept_json, task_from, task_id_of
from annotation.labels import CHOICE_CONTROLS
from annotation.tasks import annotation_payload
from data.records import Answers, VariantId
from tests.annotation.fake_label_studio import answers, choice
from tests.annotation.labelling import an_annotation

STAMP = "2026-11-29T12:00:00.000000Z"


def payload(result: object = None, **fields: object) -> dict[str, object]:
    return {
        "id": 7,
        "result": answers() if result is None else result,
        "completed_by": 3,
        "was_cancelled": False,
        "created_at": STAMP,
        "updated_at": STAMP,
        **fields,
    }


def read(raw: object, *, option_count: int = 4) -> InboundAnnotation:
    outcome = annotation_from(raw, option_count=option_count)
    assert isinstance(outcome, InboundAnnotation), outcome
    return outcome


def reason(raw: object, *, option_count: int = 4) -> str:
    outcome = annotation_from(raw, option_count=option_count)
    assert isinstance(outcome, Unreadable), outcome
    return outcome.reason


def text(control: str, value: object) -> dict[str, object]:
    return {"id": control, "from_name": control, "to_name": "variant", "type": "textarea", "value": {"text": value}}


def test_three_answers_are_read() -> None:
    assert read(payload(answers("yes", "no", "yes"))).answers == Answers(True, False, True)


def test_what_goes_out_comes_back_the_same() -> None:
    sent = an_annotation(
        "a_1",
        VariantId("v_1"),
        Answers(True, None, False),
        corrected_answer_index=2,
        corrected_text="zwei\nZeilen",
        comment="“😀” <b>",
        is_flagged=True,
    )

    back = read(payload(**annotation_payload(sent, completed_by=3)))

    assert back.content_hash == sent.content_hash
    assert back.answers == sent.answers
    assert back.provenance is not None
    assert (back.provenance.annotation_id, back.provenance.revision) == ("a_1", 1)


def test_a_skipped_one_is_a_state_of_its_own() -> None:
    skipped = read(payload([], was_cancelled=True))

    assert (skipped.is_skipped, skipped.is_empty) == (True, False)


@pytest.mark.parametrize("result", [[], None])
def test_neither_answered_nor_skipped_is_empty(result: object) -> None:
    raw = payload()
    raw["result"] = result

    assert read(raw).is_empty


def test_a_comment_alone_is_not_empty() -> None:
    assert not read(payload([text("comment", ["hm"])])).is_empty


def test_an_unanswered_dimension_stays_open() -> None:
    assert read(payload([choice("tc", "yes")])).answers == Answers(True, None, None)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ([choice("tc", "perhaps")], "choice 'perhaps' of control 'tc' is not in the label config"),
        ([choice("tc", "yes", "no")], "takes one choice"),
        ([choice("tc")], "takes one choice"),
        ([choice("tc", "yes"), choice("tc", "no")], "occurs twice"),
        ([choice("quality", "yes")], "control 'quality' is not in the label config"),
        ([choice("corrected_answer", "E")], "the variant has only 4 options"),
        ([{"from_name": "tc", "type": "choices", "value": "yes"}], "value"),
        ([{"type": "relation", "from_id": "a", "to_id": "b"}], "from_name"),
        ([text("comment", [1])], "should have a text"),
        ([text("comment", {"a": 1})], "should have a text"),
        ([choice("tc", "yes"), "nonsense"], "result.1"),
        ({"tc": "yes"}, "result"),
        ("yes", "result"),
    ],
)
def test_a_result_that_does_not_fit_says_why(result: object, said: str) -> None:
    assert said in reason(payload(result))


@pytest.mark.parametrize(
    "fields",
    [
        {"updated_at": None},
        {"updated_at": "soon"},
        {"id": "seven"},
        {"id": 2**70},
        {"completed_by": "ana"},
        {"id": None},
    ],
)
def test_a_broken_field_says_which(fields: dict[str, object]) -> None:
    assert next(iter(fields)) in reason(payload(**fields))


def test_a_payload_that_is_no_object_is_unreadable() -> None:
    assert annotation_from("nothing", option_count=4) == Unreadable(None, None, reason("nothing"))


def test_an_unreadable_one_keeps_id_and_stamp() -> None:
    outcome = annotation_from(payload([choice("tc", "perhaps")]), option_count=4)

    assert isinstance(outcome, Unreadable)
    assert (outcome.ls_annotation_id, outcome.updated_at) == (7, datetime(2026, 11, 29, 12, tzinfo=UTC))


@pytest.mark.parametrize("person", [3, {"id": 3, "email": "ana@sagedesk.local"}])
def test_the_author_is_a_number_or_an_object(person: object) -> None:
    assert read(payload(completed_by=person, updated_by=person)).completed_by == 3


@pytest.mark.parametrize(
    ("stamp", "meant"),
    [
        ("2026-11-29T12:00:00Z", datetime(2026, 11, 29, 12, tzinfo=UTC)),
        ("2026-11-29T12:00:00.5", datetime(2026, 11, 29, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-29T14:00:00+02:00", datetime(2026, 11, 29, 14, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_stamps_of_any_form_become_utc(stamp: str, meant: datetime) -> None:
    updated_at = read(payload(updated_at=stamp)).updated_at

    assert updated_at == meant
    assert updated_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("lead_time", ["high", math.nan, math.inf, -3, True, None])
def test_a_strange_duration_does_not_cost_the_label(lead_time: object) -> None:
    label = read(payload(lead_time=lead_time))

    assert label.lead_time_s is None
    assert label.answers.is_complete


def test_a_strange_score_of_a_prediction_is_not_even_looked_at() -> None:
    task = {
        "id": 1,
        "updated_at": STAMP,
        "annotations": [payload()],
        "predictions": [{"score": "high"}, {"score": math.nan}],
    }

    assert not isinstance(task_from(task, option_count=4), Unreadable)


def test_a_tampered_provenance_is_no_provenance() -> None:
    for value in (["{"], ['{"annotation_id": 3}'], ["[]"], []):
        assert read(payload([*answers(), text("provenance", value)])).provenance is None


def test_two_lines_of_a_comment_are_one_comment() -> None:
    assert read(payload([text("comment", ["one", "two"])])).comment == "one\ntwo"


def test_characters_that_no_database_keeps_are_replaced() -> None:
    assert read(payload([text("comment", ["a\x00b\ud83d"])])).comment == "a\ufffdb\ufffd"


def test_one_odd_annotation_does_not_spoil_its_neighbours() -> None:
    task = task_from(
        {"id": 1, "updated_at": STAMP, "annotations": [payload(), "odd", payload(id=8, updated_at=None)]},
        option_count=4,
    )

    assert not isinstance(task, Unreadable)
    assert [isinstance(each, InboundAnnotation) for each, _ in task.annotations] == [True, False, False]
    assert task.ls_annotation_ids == {7, 8}


def test_a_task_without_a_stamp_is_unreadable_as_a_whole() -> None:
    task = {"id": 5, "annotations": [payload()]}

    assert isinstance(task_from(task, option_count=4), Unreadable)
    assert task_id_of(task) == 5


def test_a_payload_is_kept_as_json_that_every_parser_takes() -> None:
    kept = kept_json({"score": math.nan, "text": "\ud83d\x00", "result": [{"x": math.inf}], "n": 1.5})

    assert json.loads(kept, parse_constant=pytest.fail) == {
        "score": "nan",
        "text": "\ufffd\ufffd",
        "result": [{"x": "inf"}],
        "n": 1.5,
    }


def test_five_megabytes_are_read() -> None:
    assert len(read(payload([text("comment", ["x" * 5_000_000])])).comment) == 5_000_000


def test_every_choice_of_the_config_is_understood() -> None:
    for control, values in CHOICE_CONTROLS.items():
        for value in values:
            read(payload([choice(control, value)]), option_count=10)
