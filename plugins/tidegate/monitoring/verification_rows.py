"""What the last verification of a table has found, in words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.model import resource_names
from tidegate.model.offsets import parse_offsets
from tidegate.model.table_state import TableState
from tidegate.monitoring.reports import VerificationReport
from tidegate.reprocess.verify import KINDS, VERIFIED_PROPERTY, WHOLE
from tidegate.spec.time_text import format_utc, to_utc_datetime

MAX_NAMED_LIMITS = 5


def read_verification(pipeline: str, state: TableState | None) -> VerificationReport | None:
    """Return the kept result of the last verification; None if there is none."""
    text = (state.marks if state else {}).get(resource_names.name_pipeline_property(pipeline, VERIFIED_PROPERTY))
    if text is None:
        return None
    facts = json.loads(text)
    return {
        "at": format_utc(to_utc_datetime(facts["at_ms"])),
        "position": parse_offsets(facts["position"]),
        "sample_per_million": facts["sample_per_million"],
        "equal": facts["equal"],
        "missing": facts["missing"],
        "surplus": facts["surplus"],
        "different": facts["different"],
        "unknowable": facts["unknowable"],
    }


def count_wrong(report: VerificationReport) -> int:
    return report["missing"] + report["surplus"] + report["different"]


def format_counts(facts: Mapping[str, Any]) -> str:
    sample = facts["sample_per_million"]
    share = "" if sample == WHOLE else f" of a sample of {sample * 100 / WHOLE:g}%"
    return " ".join(f"{kind}={facts[kind]}" for kind in KINDS) + share


def format_verification(table: str, report: VerificationReport) -> str:
    return f"verified {report['at']} {table}: {format_counts(report)}"


def describe_limits(limits: Sequence[str]) -> str:
    """Say why the log cannot tell some keys."""
    if not limits:
        return "unknowable: records of these keys were set aside, come by several partitions, or came late"
    named = "; ".join(limits[:MAX_NAMED_LIMITS])
    more = len(limits) - MAX_NAMED_LIMITS
    return f"unknowable: {named}" + (f"; and {more} more" if more > 0 else "")
