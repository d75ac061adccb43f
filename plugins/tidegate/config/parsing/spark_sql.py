"""Spark's SQL in a pipeline file, read by sqlglot: one statement or expression, or a sentence about why it is none."""

import logging
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tidegate.config.parsing.problems import find_closest

TOO_DEEP = "brackets or functions nest too deeply to be read; write it flatter"


def parse_statement(sql: str, example: str, placeholders: Mapping[str, str] | None = None) -> Any:
    """The tree of one statement or expression. `ValueError` shows where it is unreadable, and ends with `example`.

    `placeholders`: names in `sql` that stand for the user's words in braces, each with that word.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    # what it reads as a mere command is refused by who asked for something else; its own warning names no file
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        statements = sqlglot.parse(sql, read="spark")
    except SqlglotError as fault:
        errors = getattr(fault, "errors", None)
        word = errors[0].get("highlight") if errors else None
        place = f" near {(placeholders or {}).get(word, word)!r}" if word else ""
        raise ValueError(f"not SQL that Spark reads{place}; {example}") from fault
    except RecursionError:
        raise ValueError(f"{TOO_DEEP}; {example}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as fault:  # of sqlglot itself, over what is no SQL
        raise ValueError(f"not SQL that Spark reads; {example}") from fault
    if len(statements) != 1 or statements[0] is None:
        raise ValueError(f"one expression expected, {len(statements)} statements found; {example}")
    return statements[0]


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Their answer follows from their arguments alone.
REPEATABLE_FUNCTIONS = split_words("""
    abs acos acosh add_months aes_decrypt aggregate array array_append array_compact array_contains array_distinct
    array_except array_insert array_intersect array_join array_max array_min array_position array_prepend
    array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan
    atan2 atanh base64 bigint bin binary bit_count bit_get bit_length boolean bround btrim cardinality cast cbrt
    ceil ceiling char char_length character_length chr coalesce concat concat_ws contains conv convert_timezone cos
    cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees double e element_at
    elt encode endswith equal_null exists exp expm1 extract factorial filter find_in_set flatten float floor forall
    format_number format_string from_csv from_json from_unixtime from_utc_timestamp from_xml get get_json_object
    getbit greatest hash hex hour hypot if ifnull ilike initcap instr int is_valid_utf8 isnan isnotnull isnull
    json_array_length json_object_keys last_day lcase least left len length levenshtein like ln locate log log10
    log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key
    map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod
    month monthname months_between named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length
    overlay parse_json parse_url pi pmod position positive pow power printf quarter quote radians reduce regexp
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat
    replace reverse right rint rlike round rpad rtrim schema_of_csv schema_of_json sec second sentences sequence
    session_window sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint
    sort_array soundex space split split_part sqrt startswith str_to_map string struct substr substring
    substring_index tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary
    to_char to_csv to_date to_json to_number to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp to_varchar transform transform_keys transform_values translate trim trunc try_add
    try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp try_mod try_multiply
    try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number try_to_timestamp
    try_url_decode try_validate_utf8 try_variant_get typeof ucase unbase64 unhex unix_date unix_micros unix_millis
    unix_seconds upper url_decode url_encode validate_utf8 variant_get weekday weekofyear width_bucket window xpath
    xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year
    zeroifnull zip_with
""")
SCALAR_FUNCTIONS = REPEATABLE_FUNCTIONS | split_words("""
    aes_encrypt and approx_top_k_estimate assert_true between bitmap_bit_position bitmap_bucket_number bitmap_count
    case collate collation curdate current_catalog current_database current_date current_schema current_time
    current_timestamp current_timezone current_user div from_avro from_protobuf hll_sketch_estimate hll_union in
    input_file_block_length input_file_block_start input_file_name is_variant_null java_method
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    localtimestamp make_time monotonically_increasing_id not now or raise_error rand randn random randstr reflect
    schema_of_avro schema_of_variant schema_of_xml session_user shuffle spark_partition_id st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid st_srid theta_difference theta_intersection theta_sketch_estimate
    theta_union time time_diff time_trunc to_avro to_protobuf to_time to_variant_object to_xml
    try_make_timestamp_ltz try_make_timestamp_ntz try_reflect try_to_time uniform unix_timestamp user uuid version
    when window_time
""")
# Their answer does not depend on the order in which rows come.
ORDERLESS_AGGREGATES = split_words("""
    approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if covar_pop covar_samp
    every kurtosis max mean median min percentile regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy skewness std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp
    variance
""")
# Theirs does, of max_by and min_by among rows that are equally high.
ORDER_DEPENDENT_AGGREGATES = split_words("""
    any_value approx_percentile array_agg collect_list collect_set first first_value last last_value listagg max_by
    min_by mode percentile_approx string_agg
""")
AGGREGATE_FUNCTIONS = split_words("""
    any approx_top_k approx_top_k_accumulate approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    count_min_sketch grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float percentile_cont percentile_disc schema_of_variant_agg some
    theta_intersection_agg theta_sketch_agg theta_union_agg
""").union(ORDERLESS_AGGREGATES, ORDER_DEPENDENT_AGGREGATES)
WINDOW_FUNCTIONS = split_words("""
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
""")
# They make several rows of one, or a table.
ROW_FUNCTIONS = split_words("""
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer python_worker_logs
    range sql_keywords stack variant_explode variant_explode_outer
""")
GRAMMAR_FUNCTIONS = split_words("identifier timediff timestampadd timestampdiff try_cast")  # SHOW FUNCTIONS lacks them
SPARK_FUNCTIONS = SCALAR_FUNCTIONS | AGGREGATE_FUNCTIONS | WINDOW_FUNCTIONS | ROW_FUNCTIONS | GRAMMAR_FUNCTIONS
ICEBERG_FUNCTIONS = split_words("bucket days hours iceberg_version months truncate years")  # of each catalog's `system`
TYPE_WORDS = split_words("char character dec decimal numeric time varchar")
# Words that a parenthesis may follow without being called.
SYNTAX_WORDS = split_words("""
    all and as between both by case cube distinct div else escape except for from group having ilike in intersect
    interval is join lateral leading like limit minus not offset on or over partition pivot regexp rlike rollup select
    sets tablesample then trailing union unpivot using values when where with within
""")
PATTERN_WORDS = split_words("ilike like rlike")  # ANY, SOME and ALL behind them are no functions
WORD_PATTERN = re.compile(r"[^\W\d]\w*")


def find_functions(text: str) -> list[str]:
    """The functions in a text of Spark's SQL, as written, in small letters.

    `ValueError` for a function with a namespace that is not Iceberg's.
    """
    import sqlglot

    tokens = sqlglot.tokenize(text, read="spark")
    functions = list[str]()
    for number, (token, following) in enumerate(pairwise(tokens)):
        name = token.text.casefold()
        before = [token.text.casefold() for token in tokens[max(0, number - 2) : number]]
        if following.text != "(" or not WORD_PATTERN.fullmatch(name):
            continue
        if before[-1:] == ["."]:
            if before != ["system", "."] or name not in ICEBERG_FUNCTIONS:
                raise ValueError(
                    f"{name}() is a function of your own, of which nothing is known; use Spark's own functions"
                )
            continue
        if not PATTERN_WORDS.intersection(before[-1:]):
            functions.append(name)
    return [name for name in functions if name not in SYNTAX_WORDS]


def find_known_functions(text: str, tree: Any) -> frozenset[str]:
    """`ValueError` for a function that Spark does not have. `tree` is the parsed text."""
    from sqlglot import exp

    remedy = "write it with Spark's functions, which SHOW FUNCTIONS lists"
    named_tables = {alias.name.casefold() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns")}
    called_functions = frozenset(find_functions(text)) - named_tables - TYPE_WORDS
    unknown = sorted(called_functions - SPARK_FUNCTIONS)
    if unknown:
        closest = find_closest(unknown[0], SPARK_FUNCTIONS)
        advice = f"did you mean {' or '.join(closest)}?" if closest else remedy
        raise ValueError(f"{unknown[0]}() is no function of Spark's; {advice}")
    return called_functions


def refuse_nested_rows(tree: Any) -> None:
    """`ValueError` for a function that makes several rows inside of an expression."""
    from sqlglot import exp

    for node in tree.find_all(exp.Func):
        names = [node.name] if isinstance(node, exp.Anonymous) else node.sql_names()
        makes_rows = ROW_FUNCTIONS.intersection(name.casefold() for name in names)
        if makes_rows and not isinstance(node.parent, exp.Select | exp.Alias | exp.Aliases | exp.Lateral | exp.Table):
            raise ValueError(
                f"{min(makes_rows)}() makes several rows, and stands inside of an expression; make its rows in a "
                "subquery: SELECT ... FROM (SELECT explode(...) AS e FROM {table})"
            )
