"""The live view of a table: its rows, and what the next merge would make of them with all that is staged by then."""

from tidegate.errors import ConfigurationError
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.statements import build_merge_input
from tidegate.merge.write_mode import name_fold
from tidegate.model import resource_names
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_intermediate, describe_memory
from tidegate.spec.table import Table
from tidegate.table.columns import compute_shape, stages_kept_columns
from tidegate.table.session import TableSession


def render_live_view(table: TableSession) -> str:
    """The query of a table that was read: a fixed text, which is right as batches come, are merged and removed.

    Batches count that are complete, continue from the table's position, and were staged for the columns of this text.
    Others do not, so that after a change of the pipeline file, and after a rollback, it shows what is merged.
    From now on clean_up keeps what such a query may be reading. `ConfigurationError` for a table whose rows no query
    over the two tables gives.
    """
    _check_can_be_viewed(table)
    table.session.staging.keep_for_readers(table.intermediate)
    spec = table.resolved
    values = _build_view_input(table)
    name = name_fold(spec, is_folded=spec.folds_records or stages_kept_columns(spec))
    if name == "last":
        name = "upsert" if spec.upsert else str(spec.mode)
    state = table.require_state()
    columns = [column.name for column in state.columns]
    is_whole = set(columns) <= {*dict(values["keys"]), *values["values"]}
    return table.sql.render(
        f"live_view_{name}",
        **{
            **values,
            "flag": values.get("flag"),
            "groups": bool(spec.sequence_groups),
            "columns": columns,
            "in_turn": True,
            "replaces": spec.upsert,
            "asks_rows": spec.upsert and (name != "upsert" or not is_whole),
            "shape": compute_shape(spec),
            "uuid": state.uuid,
            "pipeline": table.pipeline.name,
            "mark": resource_names.name_pipeline_property(table.pipeline.name, ""),
            "tag": resource_names.name_tag(table.pipeline.name),
            "positions": resource_names.name_positions_table(table.name),
        },
    )


def create_live_view(table: TableSession) -> str:
    """Make the view, or make it anew, in the catalog of the table; its name."""
    view = resource_names.name_live_view(table.pipeline, table.spec)
    statement = table.sql.render("create_live_view", view=view, query=render_live_view(table))
    table.session.engine.run(StatementsJob(table.pipeline.name, 0, (statement,), table=table.name))
    return view


def _build_view_input(table: TableSession) -> MergeInput:
    """What a merge of any batch is filled with, without what belongs to one batch."""
    spec = table.resolved
    any_batch = StagedBatch(
        table=table.name, batch=0, attempt="", snapshot_id=0, ranges=Ranges({}), counts=Counts(),
        kept=int(stages_kept_columns(spec)),
    )  # fmt: skip
    values = build_merge_input(table, any_batch, "main")
    own_names = {column.name for column in table.require_state().columns}
    values["values"] = [name for name in values["values"] if name in own_names]
    return values


def _check_can_be_viewed(table: TableSession) -> None:
    if not table.pipeline.stage.has_clock:
        raise ConfigurationError(
            f"{table.prefix}: a live view needs stage.interval: without it a flush merges at once what it stages; "
            "set it, or read the table itself"
        )
    if reason := _find_refusal(table.spec):
        raise ConfigurationError(f"{table.prefix}: a live view cannot show {reason}; merge more often instead")
    if table.state is None or table.state.recorded_position is None:
        raise ConfigurationError(
            f"{table.prefix}: nothing was merged into the table yet, so there is nothing to view; run: tidegate flush "
            f"{table.pipeline.name}"
        )
    if table.session.tables.claim(table.intermediate, describe_intermediate(table.pipeline, table.spec)) is None:
        raise ConfigurationError(
            f"{table.prefix}: intermediate={table.intermediate} is not there, and the view reads it; run: tidegate "
            f"flush {table.pipeline.name}"
        )
    memory = resource_names.name_memory_table(table.spec)
    if table.spec.remembers and table.session.tables.claim(memory, describe_memory(table.spec)) is None:
        raise ConfigurationError(
            f"{table.prefix}: table={memory} is not there, which remembers deletes or changes: no row was merged yet; "
            f"run: tidegate flush {table.pipeline.name}"
        )


def _find_refusal(spec: Table) -> str:
    """What no query over table and staged rows gives; empty if there is nothing of the kind."""
    if spec.history is not None:
        return "history: versions are laid out from remembered changes"
    if spec.value.applies_truncates:
        return "truncate: apply, as a staged truncate empties the table"
    if spec.branch != "main":
        return f"branch={spec.branch}, as it reads the main branch"
    if spec.approve is not None:
        return "approve: readers would see what waits for it"
    if spec.discovers_names:
        return "the tables that records name; name one of them with --table"
    return ""
