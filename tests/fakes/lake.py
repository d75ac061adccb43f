"""The ports of a destination in memory: tables with snapshots, branches and properties, and compare-and-swap."""

from typing import Any

from tidegate.ports.destination import Destination

from fakes.batch_history import MemoryBatchHistory
from fakes.branch_commits import MemoryBranchCommits
from fakes.dead_letter_store import MemoryDeadLetterStore
from fakes.staging_store import MemoryStagingStore


class MemoryDestination(MemoryBranchCommits, MemoryStagingStore, MemoryDeadLetterStore, MemoryBatchHistory):
    """The five ports over the same tables."""


def build_destination(lake: Any) -> Destination:
    """The ports of one double that has the methods of all five."""
    return Destination(tables=lake, commits=lake, staging=lake, dead_letters=lake, history=lake)
