"""Options and arguments whose values are known: a wrong one is bad usage, and the message names the right ones."""

from types import UnionType
from typing import Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from typer.testing import CliRunner

from ui.commands.tree import app

WRONG: Final = "nonsense"
CALLS: Final = {
    "account add role": ["ann", "--role", WRONG],
    "model preview role": [WRONG],
    "model refresh types": ["--type", "causal", "--type", WRONG],
    "model refresh vllm": ["--vllm", WRONG],
    "model retrain kind": ["--kind", WRONG],
    "model retrain method": ["--method", WRONG],
    "model rollback role": [WRONG, "--note", "why"],
    "model schedule role": [WRONG],
    "question import format_name": ["questions.jsonl", "--format", WRONG],
    "question refusals severity": ["r_1", "--severity", WRONG],
    "run list kind": ["--kind", WRONG],
    "run list state": ["--state", WRONG],
    "variant generate backend": ["--backend", WRONG],
    "variant generate types": ["--type", WRONG],
    "variant list outcome": ["--outcome", WRONG],
    "variant list variant_type": ["--type", WRONG],
    "variant verify scope": ["--scope", WRONG],
    "variant verify verifier": ["--verifier", WRONG],
}
TYPES: Final = ("restatement", "reverse", "causal", "ordering", "refinement", "negation", "critical")


def known_values() -> dict[str, tuple[str, ...]]:
    """`NOUN VERB parameter` to the values of its Literal."""
    found: dict[str, tuple[str, ...]] = {
        "model refresh types": TYPES,
        "variant generate types": TYPES,
    }  # lists, which typer takes as texts only
    for noun in app.registered_groups:
        assert noun.typer_instance is not None
        for verb in noun.typer_instance.registered_commands:
            assert verb.callback is not None
            for name, hint in get_type_hints(verb.callback).items():
                for one in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
                    if get_origin(one) is Literal:
                        found[f"{noun.name} {verb.name or verb.callback.__name__} {name}"] = get_args(one)
    return found


def test_every_such_parameter_is_tried_below() -> None:
    assert CALLS.keys() == known_values().keys()


@pytest.mark.parametrize("parameter", CALLS)
def test_a_wrong_value_exits_with_2_and_names_the_right_ones(parameter: str) -> None:
    noun, verb, _ = parameter.split()

    answer = CliRunner().invoke(app, [noun, verb, *CALLS[parameter]])

    assert answer.exit_code == 2, answer.output
    assert f"{WRONG!r} is not one of" in answer.stderr
    assert [value for value in known_values()[parameter] if repr(value) not in answer.stderr] == []
    assert "Traceback" not in answer.output
