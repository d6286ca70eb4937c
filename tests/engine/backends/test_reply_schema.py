from dataclasses import replace

import pytest

from data.records import VARIANT_TYPE_KEYS
from engine.backends.reply_schema import reply_schema
from engine.prompts import GenerationRequest
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.table import VARIANT_TYPES


def longest(schema):
    fields = schema["properties"]
    options = fields["options"]
    return fields["context"]["maxLength"], options["items"]["maxLength"], options["minItems"], options["maxItems"]


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_a_reply_that_uses_all_of_its_room_closes_within_its_tokens(key):
    context, option, fewest, most = longest(reply_schema(GenerationRequest("g", ORIGINAL, key, 2), 256))

    assert fewest == most == VARIANT_TYPES[key].option_count(ORIGINAL)
    assert context + most * option <= 3 * 256


def test_a_tuned_model_may_repeat_a_question_that_fills_its_tokens():
    long = replace(ORIGINAL, context="The man waits. " * 60)

    context, option, _, _ = longest(reply_schema(GenerationRequest("g", long, "reverse", 2), 256, is_tuned=True))

    assert min(context, option) >= len(long.context)
