"""Prints the lock without what only tests and the local stack need: ``runtime.py requirements.in requirements.txt``.

`requirements.in` says under which heading a package stands, the lock what each package was needed by.
"""

import re
import sys
from pathlib import Path

LEFT_OUT = ("# The local stack and the demo", "# Tests and habits")
ENTRY = re.compile(r"^([a-z0-9._-]+)==.*(?:\n    .*)+", re.MULTILINE)
VIA = re.compile(r"^    #(?: via)? +(?:via )?(\S.*)$", re.MULTILINE)
ROOT = "-r requirements.in"


def list_direct_packages(requirements: str) -> set[str]:
    """The packages under the headings that are not left out."""
    names, is_kept = set(), True
    for line in requirements.splitlines():
        if line.startswith("#"):
            is_kept = line not in LEFT_OUT
        elif is_kept and (name := re.match(r"[A-Za-z0-9._-]+", line)):
            names.add(name.group().lower())
    return names


def select_runtime_entries(requirements: str, lock: str) -> dict[str, str]:
    """The lock's entries, by package, that the direct ones need; KeyError for a direct one that is not locked."""
    entries: dict[str, list[str]] = {}  # a package has one for each range of Python versions
    for entry in ENTRY.finditer(lock):
        entries.setdefault(entry.group(1), []).append(entry.group())
    needed_by = {name: {via for via in VIA.findall("\n".join(texts)) if via != ROOT} for name, texts in entries.items()}
    kept_names, new = set[str](), list_direct_packages(requirements)
    while new:
        kept_names |= new
        new = {name for name, users in needed_by.items() if users & kept_names} - kept_names
    return {name: "\n".join(entries[name]) for name in sorted(kept_names)}


if __name__ == "__main__":
    given = (Path(name).read_text() for name in sys.argv[1:3])
    print("\n".join(select_runtime_entries(*given).values()))
