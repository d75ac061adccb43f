"""Whether a later record of a raw key may stand for the earlier ones, so that these are never decoded or staged."""

import re

from tidegate.pipeline import Pipeline, Table

# one message holds rows of several keys, none of which is the record's
SEVERAL_ROWS = ("canal-json", "maxwell-json")


def last_per_raw_key(pipeline: Pipeline, table: Table) -> bool:
    """Whether staging only the last record of each raw key provably gives the same table.

    Only where the last record of a key decides alone, by its offset: not where a condition looks at a value, where
    earlier records become rows too, or where every record is to be decoded. One key can have several byte forms, so the
    merge chooses the last record of the decoded key all the same. Records in which the source holds the place of an
    unchanged value are not left out by the job.
    """
    return (
        table.last_per_key == "auto"
        and table.mode == "upsert_delete"
        and table.deletes == "hard"
        and not table.sequence_by
        and table.history is None
        and table.value.format not in SEVERAL_ROWS
        and not table.partial_updates
        and _is_found_in_bytes(table.value.unavailable)
        and table.when is None
        and table.route is None
        and table.naming is None
        and table.delete_when is None
        and pipeline.source.errors.tolerance == "none"
        and not pipeline.source.verify_integrity
    )


def _is_found_in_bytes(placeholder: str | None) -> bool:
    """Whether records with the placeholder, which do not decide alone, are told apart before they are decoded."""
    return placeholder is None or re.fullmatch("[A-Za-z0-9_]+", placeholder) is not None
