"""What Spark's client raises, in one line for people."""

import pytest
from tidegate.adapters.spark.connect import format_spark_error

TRACE = """org.apache.iceberg.jdbc.UncheckedSQLException
\tat org.apache.iceberg.jdbc.JdbcTableOperations.doCommit(JdbcTableOperations.java:1)
Caused by: org.example.Wrapped: it failed
\tat org.example.Wrapped.call(Wrapped.java:2)
Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked
\tat org.sqlite.core.DB.newSQLException(DB.java:3)"""


class RemoteFailure(Exception):
    """As PySpark's Connect client gives the server's trace."""

    def __init__(self, text: str, trace: str | None) -> None:
        super().__init__(text)
        self._trace = trace

    def getStackTrace(self) -> str | None:  # noqa: N802 (PySpark's own name)
        return self._trace


@pytest.mark.parametrize(
    ("text", "trace", "line"),
    [
        ("(UncheckedSQLException) Unknown failure\nmore", TRACE,
         "(UncheckedSQLException) Unknown failure: [SQLITE_BUSY] The database file is locked"),
        ("Job aborted: [SQLITE_BUSY] The database file is locked", TRACE,
         "Job aborted: [SQLITE_BUSY] The database file is locked"),
        ("Job aborted", None, "Job aborted"),
        ("Job aborted", "java.lang.Exception\n\tat a.b(c.java:1)", "Job aborted"),
    ],
)  # fmt: skip
def test_first_cause_stands_behind_a_line_that_does_not_have_it(text: str, trace: str | None, line: str) -> None:
    assert format_spark_error(RemoteFailure(text, trace)) == line
