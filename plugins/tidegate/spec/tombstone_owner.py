"""Whether a tombstone shows which table it is for. Else it deletes nothing: the delete event ahead of it has done that.

What a tombstone does is in `formats/decoded.py` of Spark's side, and for change events in `debezium_json.py`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from tidegate.schema.wire_format import OTHER_IDS
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route
from tidegate.spec.table_template import TableNaming
from tidegate.sql.conditions import reads_any


class Conditional(Protocol):
    """A table with the conditions that choose its records: of the pipeline file, or of a job."""

    @property
    def key(self) -> KeyFormat: ...

    @property
    def value(self) -> ValueFormat: ...

    @property
    def when(self) -> str | None: ...

    @property
    def route(self) -> Route | None: ...

    @property
    def naming(self) -> TableNaming | None: ...


def is_tombstone_owned(
    table: Conditional, value_columns: Collection[str], key_columns: Collection[str], metadata: Mapping[str, str]
) -> bool:
    """Whether a record without a value shows all that chooses the table's records: its key and Kafka's metadata.

    `key_columns` are those that stand by themselves.
    """
    if _ignores_record_types(table.value.options) and not _ignores_record_types(table.key.options):
        return False
    keys = {name.casefold() for name in key_columns}
    value_metadata = [name for name, word in metadata.items() if word.startswith("value.")]
    hidden_columns = [*(name for name in value_columns if name.casefold() not in keys), *value_metadata]
    fields = [*([table.route.steps[0]] if table.route else []), *(table.naming.fields if table.naming else ())]
    hidden_names = {name.casefold() for name in hidden_columns}
    is_read = table.when is not None and reads_any(table.when, hidden_names)
    return not is_read and not hidden_names & {name.casefold() for name in fields}


def _ignores_record_types(options: Mapping[str, Any]) -> bool:
    # a tombstone does not show its type
    return bool(options.get("ignored_records") or options.get(OTHER_IDS))
