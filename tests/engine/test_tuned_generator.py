import json

import pytest

from data.errors import ModelError
from engine.prompts import PROMPT_VERSION, TUNED_PROMPT_VERSION
from engine.tuned_generator import MARK_NAME, is_tuned, prompt_version, write_mark


def test_a_folder_without_the_mark_is_prompted_like_any_chat_model(tmp_path):
    assert not is_tuned(tmp_path)
    assert prompt_version(tuned=False) == PROMPT_VERSION


def test_a_marked_folder_gets_the_short_prompts(tmp_path):
    write_mark(tmp_path, base="smollm2")

    assert is_tuned(tmp_path)
    assert json.loads((tmp_path / MARK_NAME).read_text("utf-8"))["base"] == "smollm2"
    assert prompt_version(tuned=True) == TUNED_PROMPT_VERSION


def test_a_model_tuned_on_other_prompts_is_a_warning(tmp_path, caplog):
    (tmp_path / MARK_NAME).write_text('{"prompt": "tuned", "prompt_version": "t_old"}', "utf-8")

    assert is_tuned(tmp_path)
    assert "refresh the generator" in caplog.text


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"prompt": "other", "prompt_version": "t_x"}'])
def test_a_mark_that_says_nothing_known_is_one_line(tmp_path, text):
    (tmp_path / MARK_NAME).write_text(text, "utf-8")

    with pytest.raises(ModelError, match=MARK_NAME):
        is_tuned(tmp_path)
