"""Training and Models as pages: what a run would use, starting one once, what the gate said, signing, going back."""

import json
import re
import sys
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

from tests.ui.drawn_pages import ANA, LEA, page, sent, shown
from tests.ui.labelled_store import LabelledStore
from tests.ui.learning_desk import Differing, comparison_report, gate_report, put_gate_run, put_model, put_run
from training.gate_report import GateOutcome
from ui.desk.context import Desk
from ui.desk.runs.supervisor import Supervisor
from ui.desk.usecases import runs, schedules
from ui.desk.usecases.models import list_models

pytestmark = pytest.mark.usefixtures("quick_pages")

HOSTILE = "<script>alert(1)</script> $5 and $6 ![b](http://beacon.test/x) \\frac{1}{0} She"


@pytest.fixture
def idle_desk(desk: Desk) -> Desk:
    """Queues runs and starts none."""
    supervisor = Supervisor(
        desk.store,
        desk.settings.runs,
        ingests={},
        python=sys.executable,
        code_version="1",
        now=desk.now,
        max_running=0,
    )
    return replace(desk, supervisor=supervisor)


def champion_and_challenger(desk: Desk) -> tuple[str, str]:
    return put_model(desk, "old", alias="champion"), put_model(desk, "new", alias="challenger")


def alias_of(desk: Desk, model_id: str) -> tuple[str, ...]:
    return next(model.aliases for model in list_models(desk, LEA) if model.model_id == model_id)


def button(drawn: AppTest, label: str) -> Button:
    return next(it for it in drawn.button if it.label == label)


def start_button(drawn: AppTest) -> Button:
    return next(button for button in drawn.button if button.label.startswith("Train the "))


def test_training_shows_what_a_run_would_use_before_it_starts(desk: Desk) -> None:
    drawn = page("training", desk, LEA)

    html = shown(drawn)
    for words in ("usable labels", "not blind", "blind labels for the gate", "sample project"):
        assert words in html
    assert "Type consistency" in html
    assert not start_button(drawn).disabled


def test_a_training_starts_with_what_the_form_says(idle_desk: Desk) -> None:
    drawn = page("training", idle_desk, LEA)

    drawn.slider[0].set_value(90)
    start_button(drawn).click().run()

    assert not drawn.exception
    (run,) = runs.list_runs(idle_desk, LEA)
    assert (run.kind, run.state) == ("train-verifier", "queued")
    assert run.settings["target_precision"] == 0.9
    assert run.run_id in shown(drawn)


def test_while_one_is_queued_a_page_that_is_opened_anew_offers_no_second(idle_desk: Desk) -> None:
    start_button(page("training", idle_desk, LEA)).click().run()
    (run,) = runs.list_runs(idle_desk, LEA)

    again = page("training", idle_desk, LEA)

    assert start_button(again).disabled
    assert f"Run {run.run_id} is queued, and only one can train at a time" in shown(again)


def test_a_training_that_runs_is_shown_with_its_share_and_the_way_to_it(desk: Desk) -> None:
    put_run(desk, "r_now", kind="train-verifier", state="running", message="fold 3")

    drawn = page("training", desk, LEA)

    assert "A verifier is training: run r_now, 3 of 9. fold 3" in shown(drawn)
    assert start_button(drawn).disabled
    assert "Open the run" in [button.label for button in drawn.button]


def test_a_generator_that_cannot_be_trained_says_why_at_its_button(desk: Desk) -> None:
    drawn = page("training", desk, LEA, role="generator")

    assert "No verifier is in use, which GRPO needs as its reward; train one first." in shown(drawn)
    assert start_button(drawn).disabled


def test_a_language_model_without_validation_labels_is_refused_before_it_starts(desk: Desk) -> None:
    drawn = page("training", desk, LEA)

    drawn.radio(key="verifier_kind").set_value("language").run()

    assert not drawn.exception
    assert start_button(drawn).disabled
    assert "a language model would not know when to stop" in shown(drawn)


def test_a_schedule_is_set_and_told(desk: Desk) -> None:
    drawn = page("training", desk, LEA)

    drawn.checkbox(key="schedule_verifier_counts").check()
    drawn.number_input(key="schedule_verifier_decisions").set_value(50)
    drawn.button(key="FormSubmitter:schedule_verifier-Save schedule").click().run()

    assert not drawn.exception
    standing = schedules.get_schedule(desk, LEA, role="verifier")
    assert standing is not None
    assert (standing.after_decisions, standing.weekday, standing.may_start) == (50, None, False)
    assert "Saved: the desk now proposes training of the verifier when it is due." in shown(drawn)


def test_models_stand_by_role_with_their_place(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_model(desk, "writer", role="generator")

    wire = sent(page("models", desk, LEA))

    assert wire.index(challenger) > 0
    for words in ("Verifiers", "Generators", "champion", "challenger", champion):
        assert words in wire


def test_the_first_model_that_is_shown_is_the_one_to_decide_on(desk: Desk) -> None:
    _, challenger = champion_and_challenger(desk)

    drawn = page("models", desk, LEA)

    assert f"Verifier {challenger}" in [element.value for element in drawn.subheader]


def test_a_model_tells_what_its_training_measured_and_where_it_comes_from(desk: Desk) -> None:
    model_id = put_model(desk, "old", alias="champion")

    html = shown(page("models", desk, LEA, model=model_id))

    assert "Measured on people&#x27;s labels of questions held out in turn (cross-validation)." in html
    for words in ("baseline (always yes)", "PR-AUC (failing variants)", "chance level", "calibration error (ECE)"):
        assert words in html
    assert re.search(r"Answer uniqueness</td><td[^>]*>91</td><td[^>]*>0.80</td><td[^>]*>0.62</td>", html)
    for words in ("seed", "splits, train", "weights.bin", "champion at the time of training"):
        assert words in html


def test_a_gate_says_first_what_follows_from_it_then_the_figures_and_folds_the_rest(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    report = gate_report("fails", reasons=["Type consistency is worse by 0.052"])
    put_gate_run(desk, champion=champion, challenger=challenger, report=report)

    drawn = page("models", desk, LEA, model=challenger)

    html = shown(drawn)
    said = [
        "Keep the champion: the challenger is worse on type consistency.",
        "Measured on 120 blind labels by people, on 30 held-out questions.",
        "difference (95 % interval)",
        "-0.052 (-0.101 to -0.004)",
        "Type consistency is worse by 0.052",
        "84% equal, kappa 0.620, 25 items",
    ]
    assert [html.index(words) for words in said] == sorted(html.index(words) for words in said)
    assert "undefined" in html  # a measure that needs both answers
    folded = drawn.expander[[one.label for one in drawn.expander].index("Details")]
    assert not folded.proto.expanded


@pytest.mark.parametrize(
    ("outcome", "labels", "said"),
    [
        ("passes", 120, "Promote: the challenger is better on validity and no worse on every other dimension."),
        ("cannot_say", 16, "Cannot say yet: needs 4 more blind labels on held-out questions;"),
    ],
)
def test_a_gate_that_did_not_fail_says_what_follows_too(
    desk: Desk, outcome: GateOutcome, labels: int, said: str
) -> None:
    champion, challenger = champion_and_challenger(desk)
    report = gate_report(outcome, labels=labels)
    put_gate_run(desk, champion=champion, challenger=challenger, report=report)

    assert said in shown(page("models", desk, LEA, model=challenger))


def test_a_damaged_gate_report_is_one_line_and_promotes_nobody(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report={"outcome": "passes"})

    drawn = page("models", desk, LEA, model=challenger)

    assert not drawn.exception
    assert "the gate report of run r_gate (" in shown(drawn)
    assert "r_gate/result.json) cannot be read: " in shown(drawn)
    assert champion in sent(drawn)
    drawn.text_area(key=f"promote_note_{challenger}").set_value("it is better")
    button(drawn, "Promote to champion").click().run()
    assert "has no evidence that can be read" in shown(drawn)
    assert "champion" in alias_of(desk, champion)
    of_run = page("runs", desk, LEA, run="r_gate")
    assert not of_run.exception
    assert "cannot be read" in shown(of_run)


def test_a_gate_run_whose_flips_are_gone_is_shown_without_them(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))
    (desk.settings.runs / "r_gate" / "outputs" / "flips.parquet").write_bytes(b"PAR1 and no more")

    drawn = page("models", desk, LEA, model=challenger)

    assert not drawn.exception
    assert "flips.parquet) cannot be read: " in shown(drawn)
    assert "weights.bin" in shown(drawn)


def test_a_model_whose_training_report_is_damaged_is_shown_without_it(desk: Desk) -> None:
    model_id = put_model(desk, "old", alias="champion")
    manifest = desk.settings.models / "verifier" / model_id / "manifest.json"
    content = json.loads(manifest.read_text())
    content["origin"]["counts"]["targets"]["AU"]["ece"] = "low"
    manifest.write_text(json.dumps(content))

    drawn = page("models", desk, LEA, model=model_id)

    assert not drawn.exception
    assert f"the training report of verifier {model_id} (" in shown(drawn)
    assert "manifest.json) cannot be read: targets.AU.ece: " in shown(drawn)
    assert "weights.bin" in shown(drawn)


def test_flips_show_both_texts_literally_and_who_was_right(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    flips = [Differing(HOSTILE, truth=True, challenger=True), Differing("A boy runs. He", truth=True, challenger=False)]
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"), flips=flips)

    drawn = page("models", desk, LEA, model=challenger)

    html = shown(drawn)
    assert "&lt;script&gt;alert" in html
    assert "<script" not in html
    assert (html.count("✓ challenger right"), html.count("✕ champion right")) == (1, 1)
    drawn.segmented_control(key="flips_direction").set_value("champion").run()
    assert "A boy runs" in shown(drawn)
    assert "alert(1)" not in shown(drawn)


def test_a_gate_without_labels_shows_why_and_no_figures_and_can_be_run_again(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    report = gate_report("cannot_say", reasons=["0 blind labels"], labels=0)
    put_gate_run(desk, champion=champion, challenger=challenger, report=report)

    drawn = page("models", desk, LEA, model=challenger)

    assert "0 blind labels" in shown(drawn)
    assert "No differences" not in shown(drawn)
    assert 'class="sd-card"' not in shown(drawn)
    assert "Compare again" in [button.label for button in drawn.button]


def test_a_comparison_under_way_is_told_and_no_second_is_offered(desk: Desk) -> None:
    _, challenger = champion_and_challenger(desk)
    put_run(desk, "r_g", kind="gate-verifier", state="running", settings={"challenger_id": challenger})

    drawn = page("models", desk, LEA, model=challenger)

    assert "A gate run is comparing it with the champion: run r_g is running." in shown(drawn)
    assert not any(button.label.startswith("Compare") for button in drawn.button)


def test_verifiers_that_agree_everywhere_say_so(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))

    assert "No differences" in shown(page("models", desk, LEA, model=challenger))


def test_a_promotion_needs_a_note(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))
    drawn = page("models", desk, LEA, model=challenger)

    button(drawn, "Promote to champion").click().run()

    assert "write a note" in shown(drawn)
    assert "champion" in alias_of(desk, champion)


def test_a_promoted_model_is_in_use_and_its_note_stands_in_the_history(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))
    drawn = page("models", desk, LEA, model=challenger)

    drawn.text_area(key=f"promote_note_{challenger}").set_value("better on uniqueness")
    button(drawn, "Promote to champion").click().run()

    assert not drawn.exception
    assert "champion" in alias_of(desk, challenger)
    assert "previous" in alias_of(desk, champion)
    assert "is now the champion" in shown(drawn)
    assert "better on uniqueness" in shown(page("models", desk, LEA, model=challenger))


def test_past_a_gate_that_did_not_pass_only_the_box_leads(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("cannot_say", labels=7))
    drawn = page("models", desk, LEA, model=challenger)
    drawn.text_area(key=f"promote_note_{challenger}").set_value("we have to begin")

    button(drawn, "Promote to champion").click().run()
    assert "did not pass the gate" in shown(drawn)
    assert "champion" in alias_of(desk, champion)
    drawn.checkbox(key=f"promote_despite_{challenger}").check()
    button(drawn, "Promote to champion").click().run()

    assert "champion" in alias_of(desk, challenger)


def test_a_passed_gate_offers_no_way_past_it(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))

    assert not page("models", desk, LEA, model=challenger).checkbox


def test_going_back_puts_the_one_before_in_use(desk: Desk) -> None:
    champion, challenger = champion_and_challenger(desk)
    put_gate_run(desk, champion=champion, challenger=challenger, report=gate_report("passes"))
    drawn = page("models", desk, LEA, model=challenger)
    drawn.text_area(key=f"promote_note_{challenger}").set_value("better")
    button(drawn, "Promote to champion").click().run()

    drawn.text_input(key=f"rollback_note_{challenger}").set_value("it rejects too much")
    button(drawn, "Roll back").click().run()

    assert not drawn.exception
    assert "champion" in alias_of(desk, champion)
    assert f"Rolled back: {champion} is the champion again." in shown(drawn)


def test_a_challenger_that_was_not_compared_offers_the_comparison(desk: Desk) -> None:
    _, challenger = champion_and_challenger(desk)

    drawn = page("models", desk, LEA, model=challenger)

    assert "It has not been compared with the current champion" in shown(drawn)
    assert "Compare with the champion" in [button.label for button in drawn.button]


def test_a_model_that_is_not_there_is_one_clear_line(desk: Desk) -> None:
    drawn = page("models", desk, LEA, model="<b>none</b>")

    assert "&lt;b&gt;none&lt;/b&gt;" in shown(drawn)


def test_a_generator_shows_both_sides_of_its_comparison_with_intervals(desk: Desk) -> None:
    writer = put_model(desk, "writer", role="generator", alias="challenger", comparison=comparison_report())

    drawn = page("models", desk, LEA, model=writer)

    html = shown(drawn)
    assert "5% → 40%" in html
    assert "+35 (+22 to +48)" in html  # percentage points
    assert "+0.35 (+0.22 to +0.48)" in html  # accepted per 1,000 tokens
    assert "Accepted: judged valid by verifier feature-judge-1, which was not the reward." in html
    assert html.count("causal inference") == 1 + 2 + 2  # the table of rates, then both sides in each of the others
    assert not drawn.checkbox  # a comparison is all that a generator's promotion asks for


def test_a_generator_without_a_comparison_is_promoted_only_past_a_box(desk: Desk) -> None:
    writer = put_model(desk, "writer", role="generator", alias="challenger")

    drawn = page("models", desk, LEA, model=writer)

    assert "It was not compared with the model it was trained from" in shown(drawn)
    assert [box.label for box in drawn.checkbox] == ["Promote without a comparison"]


def test_what_is_due_is_proposed_to_leads_on_the_overview_and_on_training(desk: Desk) -> None:
    schedules.set_schedule(desk, LEA, role="verifier", after_decisions=1)
    assert "It is time to train" not in shown(page("overview", desk, LEA))
    with desk.store.write() as connection:
        store = LabelledStore(connection)
        (variant,) = store.ask("A cook opens a jar")
        store.say(variant)

    for name in ("overview", "training"):
        drawn = page(name, desk, LEA)
        assert "Training the verifier is due: 1 new decisions since no run yet; due after 1" in shown(drawn)
        assert "Open verifier training" in [button.label for button in drawn.button]
    assert "It is time to train" not in shown(page("overview", desk, ANA))
