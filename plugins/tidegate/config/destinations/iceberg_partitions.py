"""Which partitions and orders a table of Iceberg's can have: its library refuses the others when the table is made."""

import re
from typing import NamedTuple

from tidegate.config.destinations.declared_columns import UNKNOWN_TYPE, find_table_columns, find_type
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.schema.data_types import Array, DataType, Map, Struct, format_type
from tidegate.schema.evolution import to_struct
from tidegate.sql.spark import STEP_REGEX, quote, split_path, unquote

MAX_ARGUMENT = 2**31 - 1
TRANSFORM_PATTERN = re.compile(r"(?P<word>[a-z]+)\((?:\s*(?P<argument>\d+)\s*,)?(?P<column>.+)\)", re.IGNORECASE)
DAYS = {"DATE"}
TIMES = {"TIMESTAMP", "TIMESTAMP_NTZ"}
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
TEXTS = {"STRING", "BINARY"}
TYPES = {
    "year": DAYS | TIMES, "month": DAYS | TIMES, "day": DAYS | TIMES, "hour": TIMES,
    "bucket": WHOLE | TEXTS | DAYS | TIMES | {"DECIMAL"}, "truncate": WHOLE | TEXTS | {"DECIMAL"},
}  # fmt: skip
NESTED = {"STRUCT", "ARRAY", "MAP"}
WORD_PATTERN = re.compile(r"[A-Za-z_]\w*", re.ASCII)  # a name that Spark reads without backquotes


class _Partition(NamedTuple):
    """One entry of `partition_by`: a path to a column, `word` empty, or a transform of one."""

    word: str
    column: str
    argument: int

    @classmethod
    def parse(cls, text: str) -> "_Partition":
        """Read the entry as Spark spells it: `days(at)`, `bucket(4, id)`, or a column's name."""
        match = TRANSFORM_PATTERN.fullmatch(text.strip())
        if match is None:
            return cls("", text.strip(), 0)
        word = match["word"].lower().removesuffix("s")
        return cls(word, match["column"].strip(), int(match["argument"] or 0))

    @property
    def path(self) -> tuple[str, ...]:
        """The steps to the column."""
        return split_path(self.column)

    def fits(self, kind: str) -> bool:
        """Whether Iceberg can partition by a column of this type so."""
        return kind in TYPES.get(self.word, {kind}) if self.word else kind not in NESTED


def check_partitions(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """Note partitions that Spark cannot read, by columns of other types, by one column twice, and with a number beyond
    an INT.
    """
    columns, _ = find_table_columns(model, table, path)
    struct = to_struct(declared.column for declared in columns)
    used_families = set[tuple[str, tuple[str, ...]]]()
    for index, text in enumerate(table.create.partition_by):
        partition_path = (*path, "create", "partition_by", index)
        partition = _Partition.parse(text)
        if problem := _find_problem(struct, partition):
            findings.add(partition_path, problem)
        if partition.argument > MAX_ARGUMENT:
            findings.add(partition_path, f"out of range; must be at most {MAX_ARGUMENT}")
        family = "time" if partition.word in {"year", "month", "day", "hour"} else partition.word
        column = tuple(step.casefold() for step in partition.path)
        if (family, column) in used_families:
            findings.add(partition_path, f"Iceberg partitions by {'.'.join(column)} in this way once; keep one")
        used_families.add((family, column))


def check_clusters(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """Note columns that have no order, and parts of lists and maps."""
    columns, _ = find_table_columns(model, table, path)
    struct = to_struct(declared.column for declared in columns)
    for index, name in enumerate(table.create.cluster_by):
        own_type = find_type(struct, (unquote(name),))
        data_type = find_type(struct, split_path(name)) if own_type is None else own_type
        cluster_path = (*path, "create", "cluster_by", index)
        if isinstance(data_type, str):
            findings.add(cluster_path, data_type)
        elif data_type is not None and _has_map(data_type):
            findings.add(cluster_path, "holds a map, and rows cannot be sorted by it; choose another column")


def _find_problem(struct: Struct, partition: _Partition) -> str | None:
    words = re.sub(STEP_REGEX, lambda step: "" if step[0].startswith("`") else step[0], partition.column)
    bare_step = next((word for word in words.split(".") if word and not WORD_PATTERN.fullmatch(word)), None)
    if bare_step is not None:
        return f"Spark reads {bare_step} in backquotes only; write {'.'.join(map(quote, partition.path))} instead"
    data_type = find_type(struct, partition.path)
    if data_type is None and struct.find_name(".".join(partition.path)):
        return f"Spark reads a name with dots in backquotes only; write {quote('.'.join(partition.path))} instead"
    if data_type is None or isinstance(data_type, str):
        return data_type
    kind = re.split(r"[(<]", format_type(data_type))[0]
    if kind == UNKNOWN_TYPE or partition.fits(kind):
        return None
    allowed = ", ".join(sorted(TYPES.get(partition.word, ())))
    advice = f"{partition.word} takes {allowed}" if allowed else "name a column without parts"
    return f"{'.'.join(partition.path)} is {kind}, by which Iceberg cannot partition so; {advice}"


def _has_map(data_type: DataType) -> bool:
    match data_type:
        case Array(element):
            return _has_map(element)
        case Struct(fields):
            return any(_has_map(inner) for _, inner in fields)
    return isinstance(data_type, Map)
