"""The label config: the questions that Label Studio asks, generated from the dimensions, and its hash.

Original and variant are side by side, the answers under the variant. A hidden field records where a label of ours came
from; Label Studio returns it unchanged.
"""

from typing import Final
from xml.etree import ElementTree as ET

from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import LabelStudioError
from data.ids import content_hash

TO_NAME: Final = "variant"
YES, NO = "yes", "no"
FLAGGED: Final = "flagged"
OPTION_LETTERS: Final = "ABCDEFGHIJ"
CORRECTED_ANSWER: Final = "corrected_answer"
CORRECTED_TEXT: Final = "corrected_text"
COMMENT: Final = "comment"
FLAG: Final = "flag"
PROVENANCE: Final = "provenance"
CHOICE_CONTROLS: Final[dict[str, tuple[str, ...]]] = {
    **{dimension.key.lower(): (YES, NO) for dimension in DIMENSIONS},
    CORRECTED_ANSWER: tuple(OPTION_LETTERS),
    FLAG: (FLAGGED,),
}
TEXT_CONTROLS: Final = (CORRECTED_TEXT, COMMENT, PROVENANCE)

_COLUMN: Final = "flex: 1 1 0; min-width: 0; padding: 0 1em; white-space: pre-wrap"
_HASH_DIGITS: Final = 16


def control_of(dimension: DimensionKey) -> str:
    """Name of the control for a dimension."""
    return dimension.lower()


def label_config() -> str:
    """The XML that the project is created with."""
    root = ET.Element("View")
    pages = ET.SubElement(root, "View", style="display: flex")
    for name, title in (("original", "Original"), (TO_NAME, "Variant: $variant_type")):
        page = ET.SubElement(pages, "View", style=_COLUMN)
        ET.SubElement(page, "Header", value=title)
        ET.SubElement(page, "Text", name=name, value=f"${name}")
    ET.SubElement(root, "Text", name="definition", value="$definition")
    for dimension in DIMENSIONS:
        ET.SubElement(root, "Header", value=f"{dimension.name}: {dimension.question}", size="5")
        _choices(root, control_of(dimension.key))
    ET.SubElement(root, "Header", value="If the marked answer is wrong, the right one", size="5")
    _choices(root, CORRECTED_ANSWER)
    ET.SubElement(root, "Header", value="If the text is wrong, a corrected one", size="5")
    _text(root, CORRECTED_TEXT)
    ET.SubElement(root, "Header", value="Comment", size="5")
    _text(root, COMMENT)
    _choices(root, FLAG)
    _text(ET.SubElement(root, "View", style="display: none"), PROVENANCE)
    return ET.tostring(root, encoding="unicode")


def label_config_hash(config: str | None = None) -> str:
    """The hash of a config, ours by default; ignores white space and the order of attributes.

    Raises:
        LabelStudioError: `config` is not XML.
    """
    try:
        canonical = ET.canonicalize(label_config() if config is None else config, strip_text=True)
    except ET.ParseError as exc:
        raise LabelStudioError(
            f"the project's label config is not valid XML: {exc}; restore it in Label Studio"
        ) from exc
    return content_hash("label config", canonical)[:_HASH_DIGITS]


def _choices(parent: ET.Element, name: str) -> None:
    control = ET.SubElement(parent, "Choices", name=name, toName=TO_NAME, choice="single", showInline="true")
    for value in CHOICE_CONTROLS[name]:
        ET.SubElement(control, "Choice", value=value)


def _text(parent: ET.Element, name: str) -> None:
    ET.SubElement(parent, "TextArea", name=name, toName=TO_NAME, rows="2", maxSubmissions="1", editable="true")
