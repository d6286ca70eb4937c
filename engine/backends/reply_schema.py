"""The reply's JSON schema for one request: the option count of its type, and texts that fit the token budget.

Only this built-in schema reaches a decoder, never one from a user or a model. `engine.candidate` still parses strictly.
"""

import copy
import json
from typing import Any, Final

from engine.candidate import MAX_CONTEXT_CHARACTERS, MAX_OPTION_CHARACTERS, REPLY_SCHEMA
from engine.prompts import GenerationRequest
from engine.variant_types.table import VARIANT_TYPES

# Small models fill whatever is allowed: at three characters per token even the longest reply closes in time.
_CHARACTERS_PER_TOKEN: Final = 3
# Tuned models close by themselves, and texts to copy may be long: no bound below what the tokens can spell.
_TUNED_CHARACTERS_PER_TOKEN: Final = 6
_CONTEXT_SHARE: Final = 0.5

_LAYOUT: Final = {
    # the spaces of json.dumps, as in the prompt's demonstration; with free white space a small model idles
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    # without \u, \b and \f, which spell characters that are not text
    "json_allowed_escapes": 'nrt"\\',
}


def reply_schema(request: GenerationRequest, max_new_tokens: int, *, is_tuned: bool = False) -> dict[str, Any]:
    """REPLY_SCHEMA with the exact option count and lengths that fit into `max_new_tokens`.

    `is_tuned`: bounded only by what that many tokens can spell, see `engine.tuned_generator`.
    """
    options = VARIANT_TYPES[request.variant_type].option_count(request.question)
    if is_tuned:
        most = _TUNED_CHARACTERS_PER_TOKEN * max_new_tokens
        return _bounded(options, most, most)
    characters = max(_CHARACTERS_PER_TOKEN * max_new_tokens - 60, 120)  # 60 for braces, keys and quotes
    return _bounded(options, int(characters * _CONTEXT_SHARE), int(characters * (1 - _CONTEXT_SHARE)) // options)


def grammar_schema_json(request: GenerationRequest, max_new_tokens: int, *, is_tuned: bool = False) -> str:
    """The same for llguidance, which also requires texts not to be blank, as the strict parser refuses blank ones.

    Not every server accepts a pattern together with a length, so only this decoder gets it. The layout is part of the
    schema because vLLM passes on nothing else.
    """
    schema = reply_schema(request, max_new_tokens, is_tuned=is_tuned)
    schema["x-guidance"] = _LAYOUT
    schema["properties"]["context"]["pattern"] = schema["properties"]["options"]["items"]["pattern"] = r"^\S"
    return json.dumps(schema)


def _bounded(options: int, context_characters: int, option_characters: int) -> dict[str, Any]:
    schema = copy.deepcopy(REPLY_SCHEMA)
    fields = schema["properties"]
    fields["context"]["maxLength"] = min(context_characters, MAX_CONTEXT_CHARACTERS)
    fields["options"]["minItems"] = fields["options"]["maxItems"] = options
    fields["options"]["items"]["maxLength"] = min(option_characters, MAX_OPTION_CHARACTERS)
    fields["answer"]["maximum"] = options - 1
    return schema
