"""The original behind every type's demonstration: written by us, so that prompts contain no public rows."""

from typing import Final

from data.ids import question_id
from data.records import Question

_CONTEXT: Final = (
    "A man opens his umbrella because it has begun to rain. He walks along the street to the bus stop. The man"
)
OPTIONS: Final = (
    "waits under the umbrella until the bus comes.",
    "spreads a towel on the ground and lies in the sun.",
    "closes the umbrella and shakes the snow off his skis.",
    "dives from the bus stop to look for shells.",
)
ORIGINAL: Final = Question(
    question_id=question_id(_CONTEXT, OPTIONS, 0),
    context=_CONTEXT,
    options=OPTIONS,
    answer_index=0,
    benchmark="demonstration",
    source_key="umbrella",
    source_note="written for this project",
)
