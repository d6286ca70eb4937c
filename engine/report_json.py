"""Reports to JSON and back: frozen dataclasses in the core, validated where JSON is read.

Owns the number types of reports, and the one-line error for a report that cannot be read. Keys added by a newer version
are ignored, so that its reports still open; a missing key, a value out of range or an unknown dimension is refused.
"""

from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, PlainSerializer, TypeAdapter, ValidationError

from data.errors import ReportError

T = TypeVar("T")

_DIGITS: Final = 4


def _rounded(figure: float) -> float:
    return round(figure, _DIGITS)


Figure = Annotated[float, Field(allow_inf_nan=False), PlainSerializer(_rounded, return_type=float)]
"""A finite measure, stored with four decimals; undefined ones are None, never NaN."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), PlainSerializer(_rounded, return_type=float)]
"""A `Figure` in 0..1."""
Count = Annotated[int, Field(ge=0)]


def dumped(adapter: TypeAdapter[T], report: T) -> dict[str, Any]:
    """The report as JSON values, with keys in field order."""
    content: dict[str, Any] = adapter.dump_python(report, mode="json")
    return content


def loaded(adapter: TypeAdapter[T], content: object, *, source: str) -> T:
    """The report in the content of a JSON file.

    Args:
        source: which report it is and its file, for the message.

    Raises:
        ReportError: it is damaged, or from a version that this one cannot read.
    """
    try:
        return adapter.validate_python(content)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        raise ReportError(f"{source} cannot be read: {fault}; it is damaged or of another version") from exc
