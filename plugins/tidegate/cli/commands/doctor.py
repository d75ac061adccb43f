"""``tidegate doctor``: what is wrong, in the order in which to fix it."""

import argparse
import json
import time

from tidegate.cli.output import print_text
from tidegate.connections import read_connection_from_env
from tidegate.diagnosis.finding import Severity, build_report, count_findings, format_findings
from tidegate.settings import find_include_folder
from tidegate.wiring.doctor import diagnose


def run_doctor(args: argparse.Namespace) -> int:
    """Exit code 0 without an error, warnings allowed; 1 with one."""
    begin = time.monotonic()
    findings = diagnose(
        find_include_folder(),
        read_connection_from_env,
        tuple(args.names),
        is_read_only=args.read_only,
        seconds=args.timeout,
    )
    seconds = time.monotonic() - begin
    if args.json:
        print(json.dumps(build_report(findings, seconds)), flush=True)
    else:
        print_text(format_findings(findings, seconds))
    return 1 if count_findings(findings, Severity.ERROR) else 0
