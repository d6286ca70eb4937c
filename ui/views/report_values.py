"""Values of a job's JSON report as a page words them; what is not there, or undefined, says so and is no error."""

from collections.abc import Mapping


def mapping(value: object) -> Mapping[str, object]:
    """Empty for what is none."""
    return value if isinstance(value, Mapping) else {}


def texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def count(found: Mapping[str, object], name: str) -> int:
    return int(str(found.get(name) or 0))


def number(value: object, *, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "undefined"


def signed(value: object, *, digits: int = 3) -> str:
    return f"{value:+.{digits}f}" if isinstance(value, int | float) else ""


def interval(difference: Mapping[str, object], *, digits: int = 3) -> str:
    """`low` to `high`, empty where there is none."""
    low, high = difference.get("low"), difference.get("high")
    return "" if low is None or high is None else f"{signed(low, digits=digits)} to {signed(high, digits=digits)}"


def percent(value: object) -> str:
    return f"{value:.0%}" if isinstance(value, int | float) else "undefined"
