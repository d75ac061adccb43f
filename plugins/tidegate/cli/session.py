"""The session of the pipeline that a command names: the same for every command that works on one."""

import argparse
import sys
from dataclasses import replace

from tidegate.adapters.spark.entry_points import get_verb
from tidegate.cli.output import make_printable
from tidegate.connections import read_connection_from_env
from tidegate.ports.session import Engine, Job, Session
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def open_named_pipeline(args: argparse.Namespace) -> Session:
    """A person at a terminal reads which job runs; with ``--json`` nothing is added."""
    session = assemble_checked_pipeline(find_include_folder(), args.pipeline, read_connection_from_env)
    if getattr(args, "json", False) or not sys.stderr.isatty():
        return session
    return replace(session, engine=TellingEngine(session.engine))


class TellingEngine:
    """Implements `Engine` and says on standard error what begins, as a job may take minutes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, job: Job) -> None:
        table = getattr(job, "table", "")
        print(make_printable(f"{get_verb(job)} batch={job.batch} {table}".rstrip()), file=sys.stderr, flush=True)
        self._engine.run(job)
