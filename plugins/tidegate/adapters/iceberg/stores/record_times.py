"""The times of records in tables of our own, as Python can hold them: a producer may have written any number.

Spark reads and writes times far beyond the year 9999. Python has none, so that neither PyIceberg's statistics of a file
nor the values of a row can be made of them.
"""

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.spec.time_text import EARLIEST, LATEST


def clamp_times(rows: pa.Table, name: str) -> pa.Table:
    """The rows, with the nearest time that Python has in place of each that it does not have; NULL stays NULL."""
    times = rows[name]
    first, last = (pa.scalar(end, times.type).cast(pa.int64()) for end in (EARLIEST, LATEST))
    not_earlier = pc.max_element_wise(times.cast(pa.int64()), first, skip_nulls=False)
    clamped = pc.min_element_wise(not_earlier, last, skip_nulls=False).cast(times.type)
    at = rows.column_names.index(name)
    return rows.set_column(at, rows.schema.field(at), clamped)
