"""What a diagnosis asks of a catalog: which namespaces are written, and whether something may be made there."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NamespaceNeed:
    """A namespace, or dataset, that tables lie in. `may_create` where a pipeline makes it if it is missing."""

    name: str
    may_create: bool


@dataclass(frozen=True)
class CatalogNeed:
    """What is looked at in one catalog. `scratch` is the name of what is made and removed; None makes nothing."""

    namespaces: tuple[NamespaceNeed, ...]
    scratch: str | None
