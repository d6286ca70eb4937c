import pytest

from data.errors import InputError
from ui.desk.named_values import named_values


def test_values_are_json_where_they_can_be() -> None:
    assert named_values(["learning_rate = 1e-5", " optim=adamw_torch ", "bf16 = true", "seed=a=b"], where="--sft") == {
        "learning_rate": 1e-5,
        "optim": "adamw_torch",
        "bf16": True,
        "seed": "a=b",
    }


def test_no_pair_is_no_mapping() -> None:
    assert named_values([], where="--sft") is None


@pytest.mark.parametrize("pair", ["learning_rate", "=1e-5", "learning_rate=", ""])
def test_a_pair_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(InputError, match=f"--sft {pair!r} is not of the form NAME=VALUE"):
        named_values([pair], where="--sft")
