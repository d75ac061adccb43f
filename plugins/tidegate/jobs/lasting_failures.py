"""Failures of a Spark job that last until a person changes the pipeline file or the table: told in words of our own."""

import re
from collections.abc import Collection

from tidegate.errors import ConfigurationError, IncompatibleSchema, TidegateError

NULL_CLASS = "[NOT_NULL_ASSERT_VIOLATION]"
# what Spark says of an expression that it cannot work out for any record
EXPRESSION_PATTERN = re.compile(
    r"\[(?:UNRESOLVED_COLUMN|UNRESOLVED_ROUTINE|DATATYPE_MISMATCH|WRONG_NUM_ARGS|FIELD_NOT_FOUND|INVALID_EXTRACT)"
    r"[\w.]*\][^\n]*"
    r"|\[INVALID_PARAMETER_VALUE\.PATTERN\][^\n]*|java\.util\.regex\.PatternSyntaxException: [^\n]*"
)


def find_lasting_failure(where: str, verbs: Collection[str], text: str) -> TidegateError | None:
    """The error of a job, named by `where`, whose failure no retry changes; None where one may.

    `verbs` are what the job does: `stage` works out the expressions of the pipeline file, `merge` puts rows into the
    table.
    """
    if "merge" in verbs and NULL_CLASS in text:
        return IncompatibleSchema(
            f"{where}: a record has NULL in a column that the table requires; nothing was published; write NOT NULL "
            "for it in value.schema or key.schema, so that such a record is bad and told by its place, or make the "
            "column of the table optional"
        )
    expression = EXPRESSION_PATTERN.search(text) if "stage" in verbs else None
    if expression:
        return ConfigurationError(
            f"{where}: Spark cannot work out an expression of the pipeline file: {expression[0].strip(' ;')[:400]}; "
            "nothing was written; correct when, delete_when, route or select"
        )
    return None
