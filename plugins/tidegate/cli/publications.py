"""``tidegate publish`` and what `status` and `validate` say about publications."""

import argparse
from typing import Any

from tidegate.adapters.connections import connection_from_env
from tidegate.adapters.publication_assembly import assemble_publication
from tidegate.adapters.publication_file import load_publications
from tidegate.cli import shown
from tidegate.errors import TidegateError
from tidegate.publications.plan import plan
from tidegate.publications.ports import PublicationPorts
from tidegate.publications.publish import publish, status
from tidegate.settings import include_folder


def add_publish(commands: Any) -> None:
    """The words of the command."""
    command = commands.add_parser("publish", help="a table's changes to its topic: one run of a publication")
    command.add_argument("publication")
    command.add_argument("--dry-run", action="store_true", help="say what the run would be; changes nothing")
    command.add_argument(
        "--resynchronise", action="store_true", help="compare the table with what the topic holds, and mend the topic"
    )
    command.add_argument("--json", action="store_true", help="stable output for programs")


def run_publish(words: argparse.Namespace) -> int:
    """One run; NothingToDo where the topic is current."""
    ports = _ports(words.publication)
    if words.dry_run:
        planned = plan(ports, words.resynchronise).to_dict()
        shown.say(words, _pairs(planned), {"publication": words.publication, **planned})
        return 0
    done = publish(ports, words.resynchronise).to_dict()
    shown.say(words, _pairs(done), done)
    return 0


def is_publication(name: str) -> bool:
    """Whether there is a publication of that name."""
    return any(name == known for known, _ in load_publications(include_folder()))


def publications_status(name: str | None) -> list[dict[str, Any]]:
    """Where one publication stands, or all of them; one that cannot tell says why."""
    names = [name] if name else [known for known, _ in load_publications(include_folder())]
    return [_status(one) for one in names]


def _status(name: str) -> dict[str, Any]:
    try:
        return status(_ports(name))
    except TidegateError as problem:
        return {"publication": name, "error": str(problem)}


def status_text(found: dict[str, Any]) -> str:
    """One publication, for people."""
    if "error" in found:
        return f"{found['publication']}: {found['error']}"
    state = "unfinished" if found["unfinished"] else "waiting" if found["waiting"] else "current"
    text = (
        f"{found['publication']}: {found['table']} to {', '.join(found['topics'])}: {state} "
        f"published={found['published_snapshot_id']} table={found['table_snapshot_id']}"
    )
    return text + (f"\n    {found['problem']}" if found["problem"] else "")


def _ports(name: str) -> PublicationPorts:
    return assemble_publication(include_folder(), name, connection_from_env)


def _pairs(data: dict[str, Any]) -> str:
    return " ".join(f"{name}={', '.join(v) if isinstance(v, list) else v}" for name, v in data.items())
