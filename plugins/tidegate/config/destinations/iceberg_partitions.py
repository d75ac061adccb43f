"""Which partitions a table of Iceberg's can have: its library refuses the others when the table is made."""

import re
from collections.abc import Iterator
from typing import NamedTuple

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


class _Partition(NamedTuple):
    """One entry of `partition_by`: a column, `word` empty, or a transform of one."""

    word: str
    column: str
    argument: int

    @classmethod
    def parse(cls, text: str) -> "_Partition":
        """Read the entry as Spark spells it: `days(at)`, `bucket(4, id)`, or a column's name."""
        match = TRANSFORM_PATTERN.fullmatch(text.strip())
        if match is None:
            return cls("", unquote(text.strip()).casefold(), 0)
        word = match["word"].lower().removesuffix("s")
        return cls(word, unquote(match["column"].strip()).casefold(), int(match["argument"] or 0))

    def fits(self, kind: str) -> bool:
        """Whether Iceberg can partition by a column of this type so."""
        return kind in TYPES.get(self.word, {kind}) if self.word else kind not in NESTED


def check_partitions(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """Note partitions by columns of other types, by one column twice, and with a number beyond an INT."""
    types = read_types(model, table)
    used_families = set[tuple[str, str]]()
    for index, text in enumerate(table.create.partition_by):
        partition_path, partition = (*path, "create", "partition_by", index), _Partition.parse(text)
        kind = types.get(partition.column, "")
        if kind and not partition.fits(kind):
            allowed = ", ".join(sorted(TYPES.get(partition.word, ())))
            advice = f"{partition.word} takes {allowed}" if allowed else "name a column without parts"
            findings.add(
                partition_path, f"{partition.column} is {kind}, by which Iceberg cannot partition so; {advice}"
            )
        if partition.argument > MAX_ARGUMENT:
            findings.add(partition_path, f"out of range; must be at most {MAX_ARGUMENT}")
        family = "time" if partition.word in {"year", "month", "day", "hour"} else partition.word
        if (family, partition.column) in used_families:
            findings.add(partition_path, f"Iceberg partitions by {partition.column} in this way once; keep one")
        used_families.add((family, partition.column))


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
