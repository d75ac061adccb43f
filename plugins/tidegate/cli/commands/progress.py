"""``tidegate plan``, ``status`` and ``live-view``: where pipelines and publications stand, and what comes next.

At a terminal plan and status are aligned tables, with colour unless NO_COLOR is set; else the plain lines of
`tidegate.cli.output`, and with ``--json`` one object.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.commands.publications import format_publication_reading, read_statuses
from tidegate.cli.output import (
    MAX_SHOWN_ACTIONS,
    MAX_SHOWN_BATCHES,
    format_action,
    format_approved,
    format_newest_dead_letter,
    format_open_backfill,
    make_printable,
    name_command,
)
from tidegate.cli.session import open_named_pipeline
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.flush.plan import plan
from tidegate.flush.preview import preview_batches
from tidegate.merge.live_view import create_live_view, render_live_view
from tidegate.model.batch import Plan
from tidegate.monitoring.reports import PipelineStatus, UnknownStatus
from tidegate.monitoring.runbook import name_page_file
from tidegate.monitoring.status import read_status
from tidegate.monitoring.verification_rows import count_wrong, format_verification
from tidegate.settings import find_include_folder
from tidegate.table.session import open_table
from tidegate.wiring.pipeline import assemble_pipeline

Cell = str | int | float | Text | None
GOOD = "green"
WARNING = "yellow"
BAD = "red"


def run_plan(words: argparse.Namespace) -> int:
    """Exit code 1 where a batch is refused."""
    if words.preview:
        return _run_preview(words)
    flush_plan = plan(open_named_pipeline(words))
    if is_terminal() and not words.json:
        print_plan(flush_plan)
    else:
        output.print_result(words, output.format_plan(flush_plan), flush_plan.to_dict())
    return 1 if flush_plan.refusals else 0


def _run_preview(words: argparse.Namespace) -> int:
    previews = preview_batches(open_named_pipeline(words))
    if words.json:
        print(json.dumps({"pipeline": words.pipeline, "tables": [preview.to_dict() for preview in previews]}))
    else:
        output.print_text("\n".join(output.format_preview(preview, shows_rows=is_terminal()) for preview in previews))
    return 0


def run_status(words: argparse.Namespace) -> int:
    """Exit code 1 where one cannot tell."""
    requested_name = words.pipeline
    include = find_include_folder()
    statuses = list[PipelineStatus | UnknownStatus]()
    loaded_pipelines = dict(load_all_pipelines(include))  # the right file wins
    names = [requested_name] if requested_name else list(loaded_pipelines)
    readings = read_statuses(requested_name)
    if requested_name and readings and not (include / "pipelines" / f"{requested_name}.yaml").exists():
        names = []
    for name in names:
        try:
            # also of a right file that needs what another pipeline has: no flush of it begins
            if isinstance(refusal := loaded_pipelines.get(name), ConfigurationError):
                raise refusal
            statuses.append(read_status(assemble_pipeline(include, name, read_connection_from_env)))
        except TidegateError as problem:
            if requested_name:
                raise
            statuses.append({"pipeline": name, "error": str(problem)})
    if words.json:
        publications = [
            reading.status.to_dict() if reading.status else {"publication": reading.publication, "error": reading.error}
            for reading in readings
        ]
        print(json.dumps({"pipelines": statuses, "publications": publications}))
    elif is_terminal():
        for number, status in enumerate(statuses):
            print("\n" if number else "", end="", flush=True)
            print_status(status)
        for publication in readings:
            output.print_text(f"\n{output.name_command(format_publication_reading(publication))}")
    else:
        texts = [*map(output.format_status, statuses), *map(format_publication_reading, readings)]
        output.print_text(output.name_command("\n\n".join(texts)))
    is_known = not any("error" in status for status in statuses) and all(reading.status for reading in readings)
    return 0 if is_known else 1


def run_live_view(words: argparse.Namespace) -> int:
    """Print the query, or make the view and print its name."""
    session = open_named_pipeline(words)
    names = [words.table] if words.table else [table.name for table in session.pipeline.entries]
    if len(names) != 1:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} tables={', '.join(names)}: a live view is of one table; name it with "
            "--table"
        )
    table = open_table(session, names[0]).refresh()
    output.print_text(create_live_view(table) if words.create else render_live_view(table))
    return 0


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_plan(plan: Plan) -> None:
    """The next batch of each table by partition, and what holds a table back."""
    console = _open_console()
    rows: list[Sequence[Cell]] = []
    for table in plan.tables:
        source = "staged" if table.is_resumed else "last of each key" if table.last_per_key else "all records"
        for topic, partition, start, end in table.ranges:
            if end > start:
                rows.append((table.table, table.batch, source, topic, partition, start, end, end - start))
    if rows:
        columns = ("table", "batch", "what", "topic", "partition", "from", "to", "offsets")
        console.print(_build_table(columns, rows))
    if plan.size_reason:
        console.print(f"a batch takes less than it may: {plan.size_reason}", style=WARNING)
    for refusal in plan.refusals:
        console.print(make_printable(f"{refusal.table}: refused: {refusal.message}"), style=BAD)


def print_status(status: PipelineStatus | UnknownStatus) -> None:
    """Tables, partitions, last batches, and what needs a person."""
    console = _open_console()
    if "error" in status:
        console.print(Text.assemble((status["pipeline"], "bold"), "  ", (make_printable(status["error"]), BAD)))
        return
    lag = _format_lag(status["lag"])
    freshness = status["freshness"] or "unknown"
    console.print(Text.assemble((status["pipeline"], "bold"), "  lag ", lag, f"  complete to {freshness}"))
    _print_notes(console, status)
    _print_tables(console, status)
    partitions = [
        (p["topic"], p["partition"], p["begin"], p["published"], p["committed"], p["end"], _format_lag(p["lag"]),
         _format_seconds(p["lag_seconds"]), *([p["staging"]["staged"]] if p["staging"] else []))
        for p in status["partitions"]
    ]  # fmt: skip
    columns = ("topic", "partition", "begin", "published", "committed", "end", "lag", "behind", "staged")
    console.print(_build_table(columns[: max(map(len, partitions), default=len(columns))], partitions))
    batches = [
        (b["published_at"], b["table"], b["backfill"] or b["batch"], b["read"], b["inserted"], b["updated"],
         b["deleted"], b["dead_lettered"], b["stage_seconds"], b["seconds"])
        for b in status["batches"][:MAX_SHOWN_BATCHES]
    ]  # fmt: skip
    titles = (
        "published", "table", "batch", "read", "inserted", "updated", "deleted", "dead letters", "staged in s",
        "merged in s",
    )  # fmt: skip
    if batches:
        console.print(_build_table(titles, batches))


def _print_tables(console: Console, status: PipelineStatus) -> None:
    # with a clock of staging, its progress stands beside that of the merges
    columns = ("table", "mode", "batch", "rows", "lag", "behind", "staged: lag", "behind")
    rows: list[Sequence[Cell]] = []
    for table in status["tables"]:
        row = [table["table"], table["mode"], table["batch"], table["rows"], _format_lag(table["lag"])]
        if staging := table["staging"]:
            row += [_format_seconds(table["lag_seconds"]), _format_lag(staging["lag"])]
            row += [_format_seconds(staging["lag_seconds"])]
        rows.append(row)
    console.print(_build_table(columns[: max(map(len, rows), default=len(columns))], rows))


def _print_notes(console: Console, status: PipelineStatus) -> None:
    for table in status["tables"]:
        if table["problem"]:
            console.print(make_printable(name_command(f"{table['table']}: {table['problem']}")), style=BAD)
            console.print(f"see {name_page_file(table['runbook'])}")
        if text := format_approved(table):
            console.print(make_printable(text), style=WARNING)
    for table in status["tables"]:
        if verified := table["verified"]:
            console.print(format_verification(table["table"], verified), style=BAD if count_wrong(verified) else GOOD)
    for warning in status["warnings"]:
        console.print(make_printable(f"warning: {warning}"), style=WARNING)
    if newest := status["newest_dead_letter"]:
        console.print(format_newest_dead_letter(status, newest), style=WARNING)
    for backfill in status["backfills"]:
        console.print(format_open_backfill(backfill), style=WARNING)
    for table in status["tables"]:
        for action in table["actions"][:MAX_SHOWN_ACTIONS]:
            console.print(format_action(table["table"], action).strip())


def _open_console() -> Console:
    # names may hold brackets and numbers: none of it is markup, nor coloured
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def _build_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    row_list = list(rows)
    for index, column in enumerate(columns):
        cells = [row[index] for row in row_list]
        is_text = any(isinstance(cell, str) for cell in cells) and not any(isinstance(cell, Text) for cell in cells)
        # numbers to the right, texts to the left; a name is folded and never cut
        table.add_column(column, justify="left" if is_text else "right", overflow="fold")
    for row in row_list:
        texts = [Text("-", style="dim") if cell is None else cell for cell in row]
        # digits alone: offsets are copied from here into other commands
        table.add_row(*(cell if isinstance(cell, Text) else Text(make_printable(str(cell))) for cell in texts))
    return table


def _format_lag(lag: int) -> Text:
    return Text(str(lag), style=WARNING if lag else GOOD)


def _format_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.0f} s"
