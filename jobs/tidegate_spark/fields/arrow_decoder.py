"""A function of one record's bytes applied to batches of Arrow, on Spark's Python workers.

The module travels to the workers by value, so it imports nothing of the product; `pyarrow` is there.
"""

from collections.abc import Callable
from typing import Any

Decode = Callable[[bytes | None], tuple[dict[str, Any] | None, str | None] | None]


class DecodingError(Exception):
    """Bytes that are no row, or a value that no column holds; the text says which."""


class PartialRowError(DecodingError):
    """A value that no column holds; `row` has the other columns."""

    def __init__(self, problem: str, row: dict[str, Any]) -> None:
        super().__init__(problem)
        self.row = row


def decode_or_explain(
    decode_row: Callable[[bytes], dict[str, Any]], value: bytes | None, unreadable: str
) -> tuple[dict[str, Any] | None, str | None] | None:
    """Return the row, or the reason why there is none, with what could be read of it; None for no bytes.

    `unreadable` is the reason if the format's library raises, with whatever error.
    """
    if value is None:
        return None
    try:
        return decode_row(value), None
    except PartialRowError as error:
        return error.row, str(error)
    except DecodingError as error:
        return None, str(error)
    except Exception:
        return None, unreadable


def build_arrow_decoder(
    open_decoder: Callable[[], Decode], get_row_type: Callable[[], Any], part: str
) -> Callable[[Any], Any]:
    """Return a function of an Arrow array of bytes: an array of structs of `row` and `reason`, NULL if the row is good.

    `open_decoder` is called for each batch, on the worker. Spark needs the type hints.
    """
    import pyarrow as pa

    def decode(values: pa.Array) -> pa.Array:
        decode_record = open_decoder()
        kind = build_result_type(get_row_type())
        decoded = [decode_record(value) for value in values.to_pylist()]
        rows = [None if m is None else {"row": m[0], "reason": m[1]} for m in decoded]
        try:
            return pa.array(rows, kind)
        except (pa.ArrowException, OverflowError):  # one value that no column holds, of a whole batch
            return pa.array([_replace_unstorable(row, kind, part) for row in rows], kind)

    return decode


def _replace_unstorable(row: Any, kind: Any, part: str) -> Any:
    import pyarrow as pa

    try:
        pa.array([row], kind)
    except (pa.ArrowException, OverflowError):
        return {"row": None, "reason": f"the {part} has a value that its column cannot hold"}
    return row


def build_result_type(row_type: Any) -> Any:
    import pyarrow as pa

    return pa.struct([("row", row_type), ("reason", pa.string())])
