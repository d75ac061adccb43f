"""The names that a pipeline gives to what it owns: intermediate table, control table, branches, tag."""

import re
import shlex
from collections.abc import Iterable

from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table

CREATED_BY_PROPERTY = "tidegate.created-by"  # of a destination that a pipeline created: the pipeline
SLICE_PROPERTY = "tidegate.backfill-slice"  # of a snapshot that a backfill wrote: which slice of which backfill
REPLAY_PROPERTY = "tidegate.replay"  # of a snapshot that a replay wrote: the staged attempt that it holds
# these stand where a backfill has its id
REPLAY_ID = "replay"
VERIFY_ID = "verify"
BACKFILL_PROPERTY = "tidegate.backfill"  # an intermediate table's property: the backfill that it was made for


def quote_word(table: str) -> str:
    """Quote a table's name for a command in a message: one word to a shell, also with brackets in it."""
    return shlex.quote(table)


def name_intermediate_table(pipeline: Pipeline, table: Table) -> str:
    return table.name + get_intermediate_suffix(pipeline)


def get_intermediate_suffix(pipeline: Pipeline) -> str:
    return f"_{pipeline.name}{pipeline.merge.intermediate_suffix}"


def name_registry_table(pipeline: Pipeline) -> str:
    return f"{find_home_namespace(pipeline)}.tidegate_{pipeline.name}_names"


def name_registry_property(pipeline: Pipeline) -> str:
    return name_pipeline_property(pipeline.name, "named")


def build_reserved_pattern(pipeline: Pipeline, table_names: Iterable[str]) -> str:
    """Return a regular expression of names that no record may give to a table: the product's own, and `table_names`."""
    suffix = re.escape(pipeline.merge.intermediate_suffix.lower())
    beside = [".*_deletes", ".*_tidegate_position"]
    if pipeline.template is not None and pipeline.template.history is not None:
        beside.append(".*_changes")
    own = ("tidegate_.*", *beside, f".*{suffix}", f".*_{re.escape(pipeline.name)}_.*")
    return "|".join([*own, *(re.escape(name.lower()) for name in table_names)])


def find_home_namespace(pipeline: Pipeline) -> str:
    """Return catalog and namespace of the first entry, where the tables of the whole pipeline lie."""
    first = next((table for table in pipeline.tables if table.naming is None), None)
    if first is not None or pipeline.template is None:
        return (first or pipeline.tables[0]).name.rsplit(".", 1)[0]
    return f"{pipeline.template.catalog}.{pipeline.template.namespaces[0]}"


def describe_home(pipeline: Pipeline) -> dict[str, str]:
    return {
        name_pipeline_property(pipeline.name, "home"): find_home_namespace(pipeline),
        name_pipeline_property(pipeline.name, "intermediate-suffix"): pipeline.merge.intermediate_suffix,
    }


def name_deletes_table(table: Table) -> str:
    return f"{table.name}_{get_branch_suffix(table.branch)}deletes"


def get_branch_suffix(branch: str) -> str:
    return "" if branch == "main" else re.sub(r"\W", "_", branch) + "_"


def name_positions_table(table: str) -> str:
    return f"{table}_tidegate_position"


def name_changes_table(table: Table) -> str:
    return f"{table.name}_{get_branch_suffix(table.branch)}changes"


def name_memory_table(table: Table) -> str:
    return name_deletes_table(table) if table.history is None else name_changes_table(table)


def name_live_view(pipeline: Pipeline, table: Table) -> str:
    """The view of a destination together with what the pipeline has staged for it."""
    return f"{table.name}_{pipeline.name}_live"


def name_backfill_table(pipeline: Pipeline, table: Table, backfill: str) -> str:
    return f"{get_backfill_prefix(pipeline.name, table.name)}{backfill}{pipeline.merge.intermediate_suffix}"


def get_backfill_prefix(pipeline: str, table: str) -> str:
    return f"{table}_{pipeline}_backfill_"


def name_control_table(pipeline: Pipeline) -> str:
    return f"{find_home_namespace(pipeline)}.tidegate_{pipeline.name}_batches"


def name_dead_letter_table(pipeline: Pipeline) -> str:
    return f"{find_home_namespace(pipeline)}.tidegate_{pipeline.name}_dead_letters"


def name_branch(pipeline: str, batch: int, attempt: str) -> str:
    """Name the branch of one merge attempt; never reused."""
    return f"tidegate_{pipeline}_{batch}_{attempt}"


def name_backfill_branch(pipeline: str, backfill: str, *, number: int, attempt: str) -> str:
    """Name the branch of one attempt at one slice of a backfill; no flush takes it for a batch."""
    return f"{get_backfill_branch_prefix(pipeline, backfill)}{number}_{attempt}"


def get_backfill_branch_prefix(pipeline: str, backfill: str) -> str:
    return f"tidegate_{pipeline}_backfill_{backfill}_"


def parse_branch_batch(pipeline: str, name: str) -> int | None:
    """Return the batch number in a branch name of this pipeline, None for any other branch.

    Not for tags: the tag of a pipeline ``<pipeline>_<number>_<word>`` reads like one.
    """
    return _parse_attempt_number(f"tidegate_{pipeline}_", name)


def parse_branch_backfill(pipeline: str, name: str) -> str | None:
    """Return the backfill's id, or the word in its place, in a branch name of this pipeline; else None."""
    prefix = re.escape(f"tidegate_{pipeline}_backfill_")
    match = re.fullmatch(rf"{prefix}([0-9a-f]+|{REPLAY_ID}|{VERIFY_ID})_\d+_[A-Za-z0-9]+", name)
    return match[1] if match else None


def parse_backfill_slice(pipeline: str, backfill: str, name: str) -> int | None:
    """Return the slice number in a branch name of this backfill, None for any other branch."""
    return _parse_attempt_number(get_backfill_branch_prefix(pipeline, backfill), name)


def _parse_attempt_number(prefix: str, name: str) -> int | None:
    match = re.fullmatch(rf"{re.escape(prefix)}(\d+)_([A-Za-z0-9]+)", name)
    return int(match[1]) if match else None


def is_ours(reference: str) -> bool:
    """Whether a branch or tag may belong to some pipeline, whichever."""
    return reference.startswith("tidegate_")


def name_maintenance_property(pipeline: str) -> str:
    return name_pipeline_property(pipeline, "maintenance")


def name_tag(pipeline: str) -> str:
    return f"tidegate_{pipeline}"


def parse_tag_pipeline(reference: str) -> str:
    return reference.removeprefix("tidegate_")


def name_counted_property(attempt: str) -> str:
    """Name the property in which a stage job leaves its counts; the attempt is not complete yet."""
    return f"tidegate.counted.{attempt}"


def name_staged_property(attempt: str) -> str:
    return f"tidegate.staged.{attempt}"


# of an intermediate table that a live view reads: JSON of when a clean-up first saw batches up to a number published
PUBLISHED_PROPERTY = "tidegate.published"
VIEWED_SUMMARY = "tidegate.live-view"  # of a staged batch which live views may read: its attempt is marked as complete


def name_staged_tag(batch: int) -> str:
    """The intermediate table's tag on a complete attempt at a batch: unlike a property it can be read in SQL."""
    return f"tidegate_staged_{batch}"


def name_audit_property(attempt: str) -> str:
    return f"tidegate.audit.{attempt}"


def name_pipeline_property(pipeline: str, subject: str) -> str:
    return f"tidegate.{pipeline}.{subject}"


def name_applied_property(number: int) -> str:
    return f"tidegate.applied.{number}"


def parse_applied_slice(name: str) -> int | None:
    match = re.fullmatch(r"tidegate\.applied\.(\d+)", name)
    return int(match[1]) if match else None


def name_backfill_property(pipeline: str, backfill: str) -> str:
    return name_pipeline_property(pipeline, f"backfill.{backfill}")
