"""``tidegate verify``, ``explain``: tables compared with the log, and repaired; why a table has the row of a key."""

import argparse
import json
from collections.abc import Mapping, Sequence

from tidegate.cli.commands.actions import perform_action
from tidegate.cli.output import make_line_printable, print_text
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import TidegateError, join_failures, try_tables
from tidegate.monitoring.status import describe_limits, format_counts
from tidegate.ports.session import Session
from tidegate.reprocess.backfill_plan import parse_request
from tidegate.reprocess.explain import explain_tables, format_answer
from tidegate.reprocess.repair import propose_repair
from tidegate.reprocess.verify import WHOLE, Verification, verify_table
from tidegate.table.session import select_tables


def run_verify(args: argparse.Namespace) -> int:
    """Exit code 1 where a table differs and is not repaired, or cannot be verified: the others are compared then."""
    if args.yes and not args.repair:
        args.usage_error("--yes confirms a repair: give --repair too")
    if args.repair and args.sample != WHOLE:
        args.usage_error("--repair compares every key: leave --sample out")
    session = open_named_pipeline(args)

    def compare(table: str) -> Verification:
        verification = verify_table(session, table, args.sample)
        if not args.json:
            print_text(_format_result(verification))
        return verification

    verifications, failures = try_tables([table.name for table in select_tables(session, args.table)], compare)
    code = _show_or_repair(args, session, verifications, failures) if verifications else 1
    if failures:
        raise join_failures(failures.values())
    return code


def _show_or_repair(
    args: argparse.Namespace,
    session: Session,
    verifications: Sequence[Verification],
    failures: Mapping[str, TidegateError],
) -> int:
    wrong = [verification for verification in verifications if verification.wrong]
    if args.repair and wrong:
        return perform_action(args, propose_repair(session, wrong))
    if args.json:
        refused = [{"table": name, "because": str(reason)} for name, reason in failures.items()]
        tables = [verification.to_dict() for verification in verifications]
        print(json.dumps({"pipeline": args.pipeline, "tables": tables, "refused": refused}))
    return 1 if wrong else 0


def _format_result(verification: Verification) -> str:
    lines = [f"{verification.table}: {format_counts(verification.to_dict())}"]
    lines += [f"  {describe_limits(verification.limits)}"] if verification.unknowable else []
    for difference in verification.differences:
        column = "" if difference.column is None else f" {difference.column}"
        texts = {"table": difference.table, "log": difference.log}
        sides = (f"{side}={'NULL' if text is None else make_line_printable(text)}" for side, text in texts.items())
        lines.append(f"  {difference.kind} {make_line_printable(difference.key)}{column}: {' '.join(sides)}")
    return "\n".join(lines)


def run_explain(args: argparse.Namespace) -> int:
    """Exit code 0, also for a row whose cause is not known; 1 where a table is refused: the others are explained."""
    session = open_named_pipeline(args)
    within = parse_request(args.range, None, None).ranges if args.range else None
    explanations, refusals = explain_tables(session, args.key, args.table, within)
    if args.json:
        refused = [{"table": name, "because": str(reason)} for name, reason in refusals.items()]
        tables = [entry.to_dict() for entry in explanations]
        print(json.dumps({"pipeline": args.pipeline, "tables": tables, "refused": refused}))
    else:
        print_text("\n".join(map(make_line_printable, format_answer(explanations, refusals))))
    return 1 if refusals else 0
