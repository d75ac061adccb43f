"""Which partitions a table of Iceberg's can have: its library refuses the others when the table is made."""

import re
from collections.abc import Iterator

from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.sql.spark import unquote

MAX_ARGUMENT = 2**31 - 1
TRANSFORM_PATTERN = re.compile(r"(?P<word>[a-z]+)\((?:\s*(?P<argument>\d+)\s*,)?(?P<column>.+)\)", re.IGNORECASE)
DAYS, TIMES = {"DATE"}, {"TIMESTAMP", "TIMESTAMP_NTZ"}
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
TEXTS = {"STRING", "BINARY"}
TYPES = {
    "year": DAYS | TIMES, "month": DAYS | TIMES, "day": DAYS | TIMES, "hour": TIMES,
    "bucket": WHOLE | TEXTS | DAYS | TIMES | {"DECIMAL"}, "truncate": WHOLE | TEXTS | {"DECIMAL"},
}  # fmt: skip
NESTED = {"STRUCT", "ARRAY", "MAP"}


def check_partitions(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """Note partitions by columns of other types, by one column twice, and with a number beyond an INT."""
    types = read_types(model, table)
    taken = set[tuple[str, str]]()
    for index, text in enumerate(table.create.partition_by):
        where = (*path, "create", "partition_by", index)
        match = TRANSFORM_PATTERN.fullmatch(text.strip())
        word = match["word"].lower().removesuffix("s") if match else ""
        column = unquote((match["column"] if match else text).strip()).casefold()
        kind = types.get(column, "")
        if kind and (kind in NESTED if match is None else kind not in TYPES.get(word, {kind})):
            advice = (
                f"{word} takes {', '.join(sorted(TYPES[word]))}" if word in TYPES else "name a column without parts"
            )
            findings.add(where, f"{column} is {kind}, by which Iceberg cannot partition so; {advice}")
        if match is not None and int(match["argument"] or 0) > MAX_ARGUMENT:
            findings.add(where, f"out of range; must be at most {MAX_ARGUMENT}")
        family = "time" if word in {"year", "month", "day", "hour"} else word
        if (family, column) in taken:
            findings.add(where, f"Iceberg partitions by {column} in this way once; keep one")
        taken.add((family, column))


def read_types(model: PipelineModel, table: TableModel) -> dict[str, str]:
    """The words of the columns' types by names without case, as far as they are told: `select` may make others."""
    return {} if table.select is not None else dict(_list_types(model, table))


def _list_types(model: PipelineModel, table: TableModel) -> Iterator[tuple[str, str]]:
    key, value = table.key or model.source.key, table.value or model.source.value
    for ddl, prefix in ((value.schema_, ""), (None if key.into else key.schema_, key.prefix)):
        try:
            columns = parse_columns(ddl) if ddl is not None else ()
        except ValueError:
            continue  # said where the schema is checked
        for column in columns:
            yield (prefix + column.name).casefold(), re.split(r"[(<]", column.type)[0]
