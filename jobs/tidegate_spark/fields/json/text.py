"""JSON read once more if Spark's parser re-prints what a STRING column is to keep: numbers stay as they are written.

Spark makes a double of a number with a point or an exponent before it prints it: `19.90` becomes `19.9`. In the second
reading such numbers stand in quotes behind a mark, a control character; the mark itself is written twice.
"""

from collections.abc import Callable

from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, format_type, has_leaf, replace_leaves
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import render_any, render_any_inner
from tidegate_spark.fields.lossless import (
    STRING_PATTERN,
    VariantDecimal,
    render_has_key_twice,
    render_inner_values,
    render_is_infinite,
)
from tidegate_spark.fields.written_values import BINARY_FRACTIONS

MARKED_NUMBERS = (*BINARY_FRACTIONS, "INT", "BIGINT")  # what may be written so that it is marked: 1.5, or -0
NUMBER_MARK = "\x16"
# zero with a sign is printed without it, as other integers are not
NEGATIVE_ZERO = r"-0(?![0-9.eE])"
_INTEGER_PATTERN = rf"(?!{NEGATIVE_ZERO})-?[0-9]++(?![0-9.eE])|-(?![0-9I])"
NEGATIVE_ZERO_PATTERN = rf"[:,\[\s]{NEGATIVE_ZERO}"
_OTHERS_PATTERN = "[^\"'0-9+NI-]*+"  # what begins neither a text nor a number, nor a word for one
_BEFORE_NUMBER_PATTERN = rf"\G({_OTHERS_PATTERN}(?:(?:{STRING_PATTERN}|{_INTEGER_PATTERN}){_OTHERS_PATTERN})*+)"
_BEFORE_ANY_NUMBER_PATTERN = rf"\G({_OTHERS_PATTERN}(?:(?:{STRING_PATTERN}|-(?![0-9I])){_OTHERS_PATTERN})*+)"
# words that Spark's parser takes for numbers, though JSON has none: Python writes them
NON_FINITE_PATTERN = "NaN|[+-]?(?:Infinity|INF)"
NUMBER_PATTERN = rf"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|{NON_FINITE_PATTERN}"
_ESCAPED_MARK_PATTERN = r"(?<!\\)((?:\\\\)*+)\\u0016"
_DOUBLED_MARK = r"$1\\u0016\\u0016"
_QUOTED_NUMBER = r'$1"\\u0016$2"'
MARKED_WORD_PATTERN = rf"^\x16(?:{NON_FINITE_PATTERN})$"
_BEFORE_WORD_PATTERN = rf"\G([^\"'+NI-]*+(?:(?:{STRING_PATTERN}|[+-](?!I))[^\"'+NI-]*+)*+)"
# a number of more digits than a double keeps, or with an exponent, where JSON may have one; and a print of such a one
UNKEPT = r"[:,\[\s]-?(?:(?=[0-9.]{17})[0-9]++[.]|[0-9]++(?:[.][0-9]++)?[eE])"
KEPT_LENGTH = 16
REPRINTED_PATTERN = r'^-?[0-9]+[.][0-9]+(?:E-?[0-9]+)?$|^"-?Infinity"$'
NESTED_NUMBER_PATTERN = "[.][0-9]|Infinity|NaN"
JudgeLeaf = Callable[[str, Primitive], str | None]  # a condition on a leaf at some SQL; None for one of no concern


def render_is_reprinted(expr: str, data_type: DataType) -> str | None:
    """Whether a text at `expr`, or inside of it, looks like a number or an object that was printed anew.

    Of decimals only those that are too long; see `has_fraction`.
    """
    return _render_any_leaf(expr, data_type, _suspect_leaf)


def _suspect_leaf(expr: str, leaf: Primitive) -> str | None:
    if isinstance(leaf, VariantDecimal):  # a number with an exponent is a double already
        return f"schema_of_variant({expr}) = 'DOUBLE'"
    if leaf.decimal:
        return f"{expr} LIKE '%.%' AND length({expr}) > {KEPT_LENGTH}"
    if leaf.name != "STRING":
        return None
    inside = f"({expr} LIKE '{{%' OR {expr} LIKE '[%') AND {expr} RLIKE '{NESTED_NUMBER_PATTERN}'"
    return f"({expr} LIKE '%.%' OR {expr} LIKE '%Infinity%') AND {expr} RLIKE '{REPRINTED_PATTERN}' OR {inside}"


def has_fraction(expr: str, data_type: DataType) -> str | None:
    """Whether `expr` is a decimal that was printed with a point, or may hold one; None if it never does."""

    def judge(at: str, leaf: Primitive) -> str | None:
        return f"{at} LIKE '%.%'" if leaf.decimal and not isinstance(leaf, VariantDecimal) else None

    return _render_may_have(expr, data_type, judge)


def has_zero(expr: str, data_type: DataType) -> str | None:
    """Whether `expr` is a text that may be a zero, or an object or a list with one; None if it never is."""

    def judge(at: str, leaf: Primitive) -> str | None:
        is_text = leaf.name == "STRING" and not leaf.is_lenient
        return f"({at} = '0' OR {at} LIKE '{{%' OR {at} LIKE '[%')" if is_text else None

    return _render_may_have(expr, data_type, judge)


def _render_may_have(expr: str, data_type: DataType, judge: JudgeLeaf) -> str | None:
    """Whether `judge` holds for a leaf; of lists and maps that have such leaves, whether there is one at all."""
    match data_type:
        case Primitive():
            return judge(expr, data_type)
        case Struct(fields):
            return render_any(_render_may_have(f"{expr}.{quote(name)}", inner, judge) for name, inner in fields)
        case Array(inner) | Map(_, inner):
            return f"{expr} IS NOT NULL" if _render_may_have("e", inner, judge) else None


def has_binary_fraction(data_type: DataType) -> bool:
    return has_leaf(data_type, lambda leaf: leaf.name in BINARY_FRACTIONS and not leaf.is_lenient)


def render_has_overflow(expr: str, data_type: DataType) -> str | None:
    """Whether what was parsed as `format_marked_type` holds digits for which `data_type` has no room."""

    def judge(at: str, leaf: Primitive) -> str | None:
        overflow = f"{at} RLIKE '[0-9]' AND {render_is_infinite(_render_number(at, leaf.name))}"
        return None if leaf.is_lenient else overflow

    return render_any_number(expr, data_type, judge)


def render_any_number(expr: str, data_type: DataType, judge: JudgeLeaf) -> str | None:
    """Whether `judge` holds for a FLOAT or DOUBLE at any depth; None if it judges none."""
    return _render_any_leaf(
        expr, data_type, lambda at, leaf: judge(at, leaf) if leaf.name in BINARY_FRACTIONS else None
    )


def _render_any_leaf(expr: str, data_type: DataType, judge: JudgeLeaf) -> str | None:
    if isinstance(data_type, Primitive):
        return judge(expr, data_type)
    return render_any_inner(expr, data_type, lambda at, inner: _render_any_leaf(at, inner, judge))


def render_marked_text(text: str) -> str:
    """Put each number that has a point or an exponent into quotes, behind the mark."""
    return _render_quoted_numbers(text, _BEFORE_NUMBER_PATTERN)


def render_text_of_numbers(text: str) -> str:
    """Put each number into quotes, behind the mark."""
    return _render_quoted_numbers(text, _BEFORE_ANY_NUMBER_PATTERN)


def _render_quoted_numbers(text: str, prefix: str) -> str:
    twice = f"regexp_replace({text}, {render_literal(_ESCAPED_MARK_PATTERN)}, {render_literal(_DOUBLED_MARK)})"
    return f"regexp_replace({twice}, {render_literal(f'{prefix}({NUMBER_PATTERN})')}, {render_literal(_QUOTED_NUMBER)})"


def render_strict_text(text: str) -> str:
    """Put words such as NaN into quotes: Spark's functions of JSON read no text that has them bare."""
    has_word = " OR ".join(f"contains({text}, '{word}')" for word in ("NaN", "Infinity", "INF"))
    pattern = render_literal(f"{_BEFORE_WORD_PATTERN}({NON_FINITE_PATTERN})")
    return f"CASE WHEN {has_word} THEN regexp_replace({text}, {pattern}, '$1\"$2\"') ELSE {text} END"


def render_part(text: str, path: str) -> str:
    """Return what stands at `path` of the JSON text, as text; NULL if nothing does. Words such as NaN are in quotes."""
    return f"get_json_object({render_strict_text(text)}, {render_literal(path)})"


def render_unmarked_text(text: str) -> str:
    pattern = render_literal(rf'"\\u0016({NUMBER_PATTERN})"|\\u0016(\\u0016)')
    return f"regexp_replace({text}, {pattern}, '$1$2')"


def render_unmarked_value(expr: str, data_type: DataType) -> str:
    """Return `expr`, parsed as `format_marked_type`, as if parsed from the text without marks."""
    if isinstance(data_type, Primitive):
        return _render_unmarked_leaf(expr, data_type.name)
    unmarked_values = render_inner_values(expr, data_type, render_unmarked_value)
    return _render_unmarked_keys(expr, unmarked_values) if isinstance(data_type, Map) else unmarked_values


def _render_unmarked_keys(expr: str, conversion: str) -> str:
    # a map in which a key stands twice is bad, and stays
    keys = f"transform(map_keys({expr}), k -> replace(k, '{NUMBER_MARK}{NUMBER_MARK}', '{NUMBER_MARK}'))"
    has_mark = f"exists(map_keys({expr}), k -> contains(k, '{NUMBER_MARK}')) AND NOT {render_has_key_twice(expr)}"
    return f"CASE WHEN {has_mark} THEN map_from_arrays({keys}, map_values({conversion})) ELSE {conversion} END"


def _render_unmarked_leaf(expr: str, name: str) -> str:
    if name == "STRING":
        # a text may begin as an object does: there the mark stands twice, and in a printed object it is escaped
        inside = f"replace({render_unmarked_text(expr)}, '{NUMBER_MARK}{NUMBER_MARK}', '{NUMBER_MARK}')"
        return (
            f"CASE WHEN {expr} LIKE '{{%' OR {expr} LIKE '[%' THEN {inside} "
            f"WHEN {expr} RLIKE {render_literal(MARKED_WORD_PATTERN)} THEN concat('\"', substring({expr}, 2), '\"') "
            f"ELSE regexp_replace({expr}, '{NUMBER_MARK}({NUMBER_MARK}?)', '$1') END"
        )
    if name in MARKED_NUMBERS:
        return _render_number(expr, name)
    if name == "VARIANT":
        text = f"try_variant_get({expr}, '$', 'STRING')"
        is_number = f"startswith({text}, '{NUMBER_MARK}') AND NOT startswith({text}, '{NUMBER_MARK}{NUMBER_MARK}')"
        # bytes, which no text in JSON becomes
        number = f"CAST(CAST(translate({text}, '{NUMBER_MARK}', '') AS BINARY) AS VARIANT)"
        word = f"CAST({_render_number(text, 'DOUBLE')} AS VARIANT)"
        plain = f"CAST(regexp_replace({text}, '{NUMBER_MARK}({NUMBER_MARK}?)', '$1') AS VARIANT)"
        is_marked = f"schema_of_variant({expr}) = 'STRING' AND contains({text}, '{NUMBER_MARK}')"
        is_word = f"{text} RLIKE {render_literal(MARKED_WORD_PATTERN)}"
        return (
            f"CASE WHEN {is_number} THEN CASE WHEN {is_word} THEN {word} ELSE {number} END "
            f"WHEN {is_marked} THEN {plain} ELSE {expr} END"
        )
    return expr


def _render_number(expr: str, name: str) -> str:
    return f"""try_cast(translate({expr}, '{NUMBER_MARK}"', '') AS {name})"""


def format_marked_type(data_type: DataType) -> str:
    """Return the type as which a text with marks is parsed."""
    marked_type = replace_leaves(data_type, lambda leaf: Primitive("STRING") if leaf.name in MARKED_NUMBERS else leaf)
    return format_type(marked_type)
