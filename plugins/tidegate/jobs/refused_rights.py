"""A right that a Spark job lacked, found in what its failure says: no retry changes that, so a person is asked."""

import re

from tidegate.errors import ConfigurationError

# PostgreSQL's words, behind a SQL catalog of Iceberg
REFUSED_RIGHT_PATTERN = re.compile(r"permission denied for (?:table|schema|database|sequence) [^\s;]+")


def find_refused_right(text: str) -> str | None:
    """The words that name the right's object; None where the failure is another."""
    found = REFUSED_RIGHT_PATTERN.search(text)
    return found[0] if found else None


def build_refused_right_error(where: str, refusal: str) -> ConfigurationError:
    """The error of a job, named by `where`, to which the catalog's database refused something."""
    return ConfigurationError(
        f"{where}: Spark was refused a right by the catalog's database: {refusal}; nothing was published that is not "
        "whole; give the user of the catalog's connection the rights that docs/security.md lists"
    )
