"""What the SQL of a publication may be made of: clauses and functions whose answer follows from the rows alone.

A list of what is allowed: whatever is not on it might answer differently for the same rows, and then a row that is the
same would look changed, or a change would look like none.
"""

from typing import Any

from tidegate.config.parsing.spark_functions import SYNTAX_WORDS, TYPE_WORDS, split_words

NONDETERMINISTIC_FUNCTIONS = split_words("""
    current_date current_time current_timestamp curdate localtimestamp now rand randn random randstr shuffle
    uniform unix_timestamp uuid monotonically_increasing_id
""")
# Their answer depends on the order in which rows come, max_by and min_by among rows that are equally high.
ORDER_DEPENDENT_FUNCTIONS = split_words("""
    any_value approx_percentile array_agg collect_list collect_set first
    first_value last last_value listagg max_by min_by mode percentile_approx string_agg
""")
AGGREGATE_FUNCTIONS = split_words("""
    approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop covar_samp
    every kurtosis max mean median min percentile regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy skewness std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop
    var_samp variance
""")
SCALAR_FUNCTIONS = split_words("""
    abs acos acosh add_months aes_decrypt aggregate array array_append array_compact array_contains array_distinct
    array_except array_insert array_intersect array_join array_max array_min array_position array_prepend
    array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan
    atan2 atanh base64 bigint bin binary bit_count bit_get bit_length boolean bround btrim cardinality cast cbrt
    ceil ceiling char char_length character_length chr coalesce concat concat_ws contains conv convert_timezone
    cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees double e
    element_at elt encode endswith equal_null exists exp explode explode_outer expm1 extract factorial filter
    find_in_set flatten float floor forall format_number format_string from_csv from_json from_unixtime
    from_utc_timestamp from_xml get get_json_object getbit greatest hash hex hour hypot if ifnull ilike
    initcap inline inline_outer instr int is_valid_utf8 isnan isnotnull isnull json_array_length json_object_keys
    json_tuple last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad
    ltrim luhn_check make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
    named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length overlay parse_json parse_url pi
    pmod posexplode posexplode_outer position positive pow power printf quarter quote radians reduce regexp
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat
    replace reverse right rint rlike round rpad rtrim schema_of_csv schema_of_json sec second sentences sequence
    session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint
    sort_array soundex space split split_part sqrt stack startswith str_to_map string struct substr substring
    substring_index tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd
    timestampdiff tinyint to_binary to_char to_csv to_date to_json to_number to_timestamp to_timestamp_ltz
    to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar transform transform_keys transform_values
    translate trim trunc try_add try_aes_decrypt try_cast try_divide try_element_at try_make_interval
    try_make_timestamp try_mod try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date
    try_to_number try_to_timestamp try_url_decode try_validate_utf8 try_variant_get typeof ucase unbase64 unhex
    unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode validate_utf8 variant_get weekday
    weekofyear width_bucket window xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string xxhash64 year zeroifnull zip_with
""")
ALLOWED_FUNCTIONS = AGGREGATE_FUNCTIONS | SCALAR_FUNCTIONS | TYPE_WORDS | SYNTAX_WORDS
ALLOWED_CLAUSES = split_words("""
    Select From Where Having Group Join Table TableAlias Alias Aliases Column Identifier Star Literal Boolean Null
    Paren Tuple Case If Cast TryCast DataType DataTypeParam ColumnDef Interval Var IntervalSpan Bracket Slice
    Lambda Distinct Filter Lateral In Between Escape PropertyEQ Kwarg Rollup Cube GroupingSets
""")


FUNCTION_REMEDY = "use Spark's functions that answer from their arguments alone, or let the pipeline store the value"


def refuse_nondeterministic(tree: Any, called_functions: list[str]) -> None:
    """ValueError for what answers differently each time, also where it is written without parentheses."""
    from sqlglot import exp

    words = [name.casefold() for node in tree.find_all(exp.Func) for name in node.sql_names() if name]
    words += [column.name.casefold() for column in tree.find_all(exp.Column) if not column.table]
    moving = [*sorted(NONDETERMINISTIC_FUNCTIONS & {*called_functions}), *sorted(NONDETERMINISTIC_FUNCTIONS & {*words})]
    if moving:
        raise ValueError(f"{moving[0]}() answers differently each time; store its value in the table")


def refuse_unknown(tree: Any, called_functions: list[str]) -> None:
    """ValueError for a function or a clause of which it is not known that its answer follows from the rows."""
    from sqlglot import exp

    unknown = sorted({*called_functions} - ALLOWED_FUNCTIONS)
    if unknown:
        raise ValueError(f"{unknown[0]}() is not known to give the same answer for the same rows; {FUNCTION_REMEDY}")
    plain = (
        exp.Func,
        exp.Binary,
        exp.Unary,
        *(getattr(exp, name) for name in sorted(ALLOWED_CLAUSES) if hasattr(exp, name)),
    )
    for node in tree.walk():
        if not isinstance(node, plain):
            raise ValueError(
                f"{node.sql('spark')[:60]}: this clause is not known to give the same answer for the same rows; "
                "write SELECT … FROM … JOIN … WHERE … GROUP BY … HAVING"
            )


def is_aggregate(tree: Any) -> bool:
    """Whether a part of a statement looks at several rows."""
    from sqlglot import exp

    function_names = (node.name.casefold() for node in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc))
    return tree.find(exp.AggFunc) is not None or any(
        name in AGGREGATE_FUNCTIONS | ORDER_DEPENDENT_FUNCTIONS for name in function_names
    )
