"""How a sink sees a record: formats of key and value, metadata columns, and the row that its transforms make of it.

Transforms are folded one by one, in the connector's order: each changes what a column *is* at that moment. So a masked
column is copied masked, a renamed one is left out under its new name, and a left out one is gone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.sql.spark import quote

MAX_LINE_LENGTH = 80
FILL_IN = "<FILL-IN>"  # neither a statement nor a condition: `validate` refuses it
NEEDS_SCHEMA = (
    "select needs value.schema: every field of the value that the row is made of, as Spark DDL; no setting has them"
)


@dataclass(frozen=True)
class Cell:
    """What a column holds: SQL over the record's own columns.

    - `field`: the unchanged column of the record, empty if computed. `type`: Spark's, where known.
    - `reads`: the record's columns, without case.
    """

    sql: str
    field: str = ""
    type: str = ""
    reads: frozenset[str] = frozenset()


def compute(sql: str, kind: str, reads: Iterable[str] = ()) -> Cell:
    return Cell(f"CAST({sql} AS {kind})", type=kind, reads=frozenset(reads))


def build_own_cell(name: str, kind: str = "") -> Cell:
    return Cell(quote(name), field=name, type=kind, reads=frozenset((name.casefold(),)))


class TransformedRow:
    """The columns after the transforms so far. Names are compared without case, as Spark does.

    `cells`: columns that some transform has named. With `has_rest` all other fields of the record are columns too,
    except for hidden ones, which are no longer there under their own name.
    """

    def __init__(self) -> None:
        self.is_typed = False  # whether the format knows its fields without a schema in the file
        self.has_rest = True
        self.cells: dict[str, Cell] = {}
        self._hidden: dict[str, str] = {}
        self._made: set[str] = set()  # names that no field of the record has, as far as the transforms show

    @property
    def is_changed(self) -> bool:
        """Whether a record is not the row already."""
        is_own = all(cell.field == name for name, cell in self.cells.items())
        return not self.has_rest or bool(self._hidden) or not is_own

    def find(self, name: str) -> Cell | None:
        """The column as it is now; None if it was left out or renamed."""
        known = self._find_name(name)
        if known is None and self.has_rest and not self.is_hidden(name):
            self.cells[name] = build_own_cell(name)
            known = name
        return None if known is None else self.cells[known]

    def is_known(self, name: str) -> bool:
        """Whether some transform has named the column, or left it out."""
        return self._find_name(name) is not None or self.is_hidden(name)

    def is_hidden(self, name: str) -> bool:
        """Whether the record's field of this name is no longer a column of this name."""
        return name.casefold() in self._hidden

    def put(self, name: str, cell: Cell) -> None:
        """Make, or replace, a column."""
        folded = name.casefold()
        known = self._find_name(name)
        if cell.field == name:
            self._hidden.pop(folded, None)
        elif known is not None:
            self._hide(known)
        elif folded not in self._hidden:
            self._made.add(folded)
        if known is not None:
            del self.cells[known]
        self.cells[name] = cell

    def replace_fields(self, excluded: Collection[str], included: Collection[str], renamed: Mapping[str, str]) -> str:
        """Leave out, keep and rename columns, all at once; else return why not, and change nothing."""
        for name in (*included, *renamed):
            self.find(name)
        left_out = {name.casefold() for name in excluded}
        kept = {name.casefold() for name in included}
        new_names = {old.casefold(): new for old, new in renamed.items()}
        staying = [
            (new_names.get(name.casefold(), name), cell)
            for name, cell in self.cells.items()
            if name.casefold() not in left_out and (not kept or name.casefold() in kept)
        ]
        cells = dict(staying)
        folded_names = {name.casefold() for name, _ in staying}
        if len(folded_names) < len(staying):
            return "two columns would have one name"
        if not staying and (kept or not self.has_rest):
            return "no column would be left"
        before = {name.casefold() for name in self.cells}
        for name in (*excluded, *(name for name, cell in self.cells.items() if cells.get(name) != cell)):
            self._hide(self._find_name(name) or name)
        self._made |= folded_names - before - set(self._hidden)
        for name, cell in cells.items():
            if cell.field == name:
                self._hidden.pop(name.casefold(), None)
        self.has_rest = self.has_rest and not kept
        self.cells = cells
        return ""

    def list_fields(self, columns: Mapping[str, str], made: Collection[str]) -> dict[str, str]:
        """The value's fields with their types, from a table's `columns`; `made`: columns that no value holds."""
        hidden = {name.casefold() for name in made}
        fields: dict[str, str] = {}
        types: dict[str, str] = {}
        for name, kind in columns.items():
            known = self._find_name(name)
            cell = None if known is None else self.cells[known]
            if known is None and self.has_rest and not self.is_hidden(name):
                cell = build_own_cell(name)
            for read in cell.reads if cell else ():
                types.setdefault(read, kind)
            if cell and cell.field and cell.field.casefold() not in hidden:
                fields[cell.field] = kind
        own_names = {name.casefold(): name for name in (*columns, *self._hidden.values(), *self.cells)}
        for cell in self.cells.values():
            for read in cell.reads - {name.casefold() for name in fields} - hidden:
                fields[own_names.get(read, read)] = types.get(read, "STRING")
        return fields

    def list_rendered(self) -> list[str]:
        """The columns that the SELECT makes of fields of the record, by name."""
        return [name for name, cell in self.cells.items() if cell.reads and (cell.field != name or not self.has_rest)]

    def render(self, keys: Iterable[str], metadata: Iterable[str], fields: Collection[str] | None) -> str:
        """The SELECT that makes the row; empty where the record is the row.

        `keys`: columns from the record's key. `fields`: the value's, None if unknown.
        """
        known = None if fields is None else {name.casefold() for name in (*fields, *metadata)}
        if not self.has_rest:
            names = {name.casefold() for name in self.cells}
            key_columns = [quote(name) for name in keys if name.casefold() not in names]
            return _join([*key_columns, *(_render_column(name, cell) for name, cell in self.cells.items())])
        # Kafka Connect refuses a name twice in a record with a schema; without one it may be a field of it
        made = self._made if self.is_typed else set()
        hidden = [name for folded, name in self._hidden.items() if folded not in made]
        left_out = [quote(name) for name in hidden if known is None or name.casefold() in known]
        computed = [_render_column(name, cell) for name, cell in self.cells.items() if cell.field != name]
        star = f"* EXCEPT ({', '.join(left_out)})" if left_out else "*"
        return _join([star, *computed]) if left_out or computed else ""

    def _find_name(self, name: str) -> str | None:
        return next((known for known in self.cells if known.casefold() == name.casefold()), None)

    def _hide(self, name: str) -> None:
        self._hidden[name.casefold()] = name


@dataclass
class RecordPlan:
    """What is known of the records so far; each converter and transform adds to it.

    `topic_renames`: patterns with replacements, in Java's syntax. `missing`: transforms that leave out or change
    columns and are not in the row: without them the file would show what the sink does not.
    """

    key: dict[str, Any] = field(default_factory=dict)
    value: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    row: TransformedRow = field(default_factory=TransformedRow)
    lost_by: str = ""
    missing: list[str] = field(default_factory=list)
    topic_renames: list[tuple[str, str]] = field(default_factory=list)
    delete_when: str = ""
    when: str = ""
    ignores_tombstones: bool = False
    is_change_event: bool = False

    def build_select(self, fields: Collection[str] | None) -> str:
        """Empty where the record is the row. `fields`: the value's, None if unknown."""
        return self.row.render(self.list_key_columns(), self.metadata, fields)

    def list_key_columns(self) -> list[str]:
        """The columns that the record's key adds to those of its value."""
        if self.key.get("from") == "value":
            return []
        return [self.key["into"]] if self.key.get("into") else list(self.key.get("fields", []))

    def list_made_columns(self) -> set[str]:
        """Columns that no field of the value fills."""
        return {*self.metadata, *([self.key["into"]] if self.key.get("into") else [])}


def _render_column(name: str, cell: Cell) -> str:
    return cell.sql if cell.field == name else f"{cell.sql} AS {quote(name)}"


def _join(columns: list[str]) -> str:
    line = f"SELECT {', '.join(columns)} FROM record"
    return line if len(line) <= MAX_LINE_LENGTH else "SELECT\n  " + ",\n  ".join(columns) + "\nFROM record"
