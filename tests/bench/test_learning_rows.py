from pathlib import Path

import pytest

from data.ids import normal_form
from engine.variant_types.table import contract_checks, contract_passes
from tests.bench.learning.corruption import CORRUPTIONS, accepted, labelled, question_ids, rows_by_corruption

ROWS = Path(__file__).parents[3] / "shared" / "data" / "hellaswag_pro"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ROWS.exists(), reason="the public rows of ../shared/data are not here"),
]


@pytest.fixture(scope="module")
def rows():
    return labelled(question_ids()[:60], seed=3)


def test_half_of_the_rows_are_left_as_they_are_and_every_fault_occurs(rows):
    counts = dict(rows_by_corruption(rows))

    assert 0.4 < counts["none"] / len(rows) < 0.6
    assert all(counts[corruption] > 10 for corruption in CORRUPTIONS)


def test_a_fault_is_wrong_on_what_it_breaks_and_only_on_that(rows):
    originals = {(q.question_id, v.variant_type): v for q, v in accepted()}
    for row in rows:
        before = originals.get((row.question.question_id, row.variant.variant_type))
        if row.corruption == "wrong_key":
            assert before is not None
            assert row.answers.lc is False
            assert row.variant.options[row.variant.answer_index] != before.options[before.answer_index]
        elif row.corruption == "duplicate":
            assert row.answers.au is False
            assert len(set(map(normal_form, row.variant.options))) < len(row.variant.options)
        elif row.corruption == "unchanged_context":
            assert row.answers.tc is False
            assert row.variant.context == row.question.context
        elif row.corruption == "none":
            assert row.answers.is_valid
            assert contract_passes(contract_checks(row.question, row.variant))
        else:
            assert row.answers.is_valid is False


def test_the_same_seed_gives_the_same_rows_and_parts_share_no_question():
    first, second = labelled(question_ids()[:20], seed=1), labelled(question_ids()[20:40], seed=1)

    assert labelled(question_ids()[:20], seed=1) == first
    assert not {row.question.question_id for row in first} & {row.question.question_id for row in second}
