"""The five ports to the tables of a destination, as an adapter gives them: a step takes each by its own name."""

from dataclasses import dataclass

from tidegate.ports.batch_history import BatchHistory
from tidegate.ports.branch_commits import BranchCommits
from tidegate.ports.dead_letter_store import DeadLetterStore
from tidegate.ports.staging_store import StagingStore
from tidegate.ports.table_store import TableStore


@dataclass(frozen=True)
class Destination:
    """One type of destination, or several behind one front."""

    tables: TableStore
    commits: BranchCommits
    staging: StagingStore
    dead_letters: DeadLetterStore
    history: BatchHistory
