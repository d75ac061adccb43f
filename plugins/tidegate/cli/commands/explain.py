"""``tidegate explain``: why a table has the row of one key, or has none."""

import argparse
import json

from tidegate.cli.output import make_line_printable, print_text
from tidegate.cli.session import open_named_pipeline
from tidegate.reprocess.backfill_plan import parse_request
from tidegate.reprocess.explain import explain_tables, format_answer


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
