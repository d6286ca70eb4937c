import pytest

from data.errors import BackendError
from engine.backends import BACKENDS, backend_class
from engine.backends.rules import RulesBackend


def test_an_unknown_backend_is_refused_with_the_known_ones():
    with pytest.raises(BackendError, match=r"'gpt'.*rules.*transformers.*openai.*vllm"):
        backend_class("gpt")


def test_a_known_name_gives_its_class():
    assert backend_class("rules") is RulesBackend


def test_every_entry_names_a_module_and_an_attribute():
    assert all(target.count(":") == 1 and target.startswith("engine.backends.") for target in BACKENDS.values())
