"""SQL of conditions and reasons: one of several, one for any part of a value, the first that holds; None is never."""

from collections.abc import Callable, Iterable

from tidegate.schema.data_types import Array, DataType, Map, Struct
from tidegate.sql.spark import quote

NO_REASON = "CAST(NULL AS STRING)"


def render_first_reason(*cases: str) -> str:
    """Return the reason of the first `WHEN … THEN …` that holds, else NULL; empty cases are left out."""
    given_cases = [case for case in cases if case]
    return f"CASE {' '.join(given_cases)} END" if given_cases else NO_REASON


def render_any(conditions: Iterable[str | None]) -> str | None:
    """Whether one of the conditions holds; one that is NULL does not."""
    return " OR ".join(f"coalesce({condition}, false)" for condition in conditions if condition) or None


def render_any_element(values: str, name: str, condition: str | None) -> str | None:
    """Whether the condition holds for an element of an array, which it calls by that name."""
    return f"exists({values}, {name} -> coalesce({condition}, false))" if condition else None


def render_any_inner(
    expr: str, data_type: Array | Map | Struct, judge: Callable[[str, DataType], str | None]
) -> str | None:
    """Whether `judge` holds for a value in an array, map or struct."""
    match data_type:
        case Array(element):
            return render_any_element(expr, "e", judge("e", element))
        case Map(_, value):
            return render_any_element(f"map_values({expr})", "v", judge("v", value))
        case Struct(fields):
            return render_any(judge(f"{expr}.{quote(name)}", inner) for name, inner in fields)
