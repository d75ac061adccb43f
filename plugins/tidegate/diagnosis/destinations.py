"""What a diagnosis asks of a catalog: which namespaces are written, and whether something may be made there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.diagnosis.finding import Finding


@dataclass(frozen=True)
class NamespaceNeed:
    """A namespace, or dataset, that these pipelines write. `may_create` where one makes it if it is missing."""

    name: str
    may_create: bool
    used_by: tuple[str, ...]

    def name_users(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The same findings, told for the pipelines that write this namespace."""
        return (replace(finding, used_by=self.used_by) for finding in findings)


@dataclass(frozen=True)
class CatalogNeed:
    """What is looked at in one catalog. `scratch` is the name of what is made and removed; None makes nothing."""

    namespaces: tuple[NamespaceNeed, ...]
    scratch: str | None
