"""The files of an include folder: read as `validate` reads them, and looked through for secrets."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from tidegate.config.catalogs_file import list_catalog_problems, read_catalogs
from tidegate.config.pipeline_file import list_unread_warnings, load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning
from tidegate.errors import ConfigurationError
from tidegate.model.offsets import format_names
from tidegate.redaction import has_secret
from tidegate.settings import FIRST_COMMAND, format_path, walk_files
from tidegate.spec.pipeline import Catalog, Pipeline
from tidegate.spec.publication import Publication
from tidegate.spec.source import Source

MAX_FILE_BYTES = 1 << 20
COMMENT_PATTERN = re.compile(r"(^|\s)#.*")
# what stands in an example, or where a value is filled in later
PLACEHOLDER_PATTERN = re.compile(
    r"""(?<=[:=])["']?(password|secret|token|<[^>]*>|\*+|\.{3}|…|[$]?\{[^}]*\}|[$]\w+|[$]\([^)]*\))(?=[@\s"'&;,]|$)""",
    re.IGNORECASE,
)


@dataclass
class Files:
    """The chosen files that can be read, and the catalogs that are declared."""

    pipelines: list[Pipeline] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    catalogs: dict[str, Catalog] = field(default_factory=dict)


def check_folder(include: Path) -> Finding:
    if include.is_dir():
        return make_ok("files.environment", f"include={include}")
    advice = "set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/"
    return make_error("files.environment", f"include={include}: no such folder; {advice}")


def read_files(include: Path, names: tuple[str, ...]) -> tuple[Files, list[Finding]]:
    """Return what can be read, and the findings of the rest. `ConfigurationError` for a name that no file has."""
    files = Files()
    findings = [_make_problem("files.catalogs", problem) for problem in list_catalog_problems(include)]
    with suppress(ConfigurationError):
        files.catalogs = {name: c for name, c in read_catalogs(include).items() if isinstance(c, Catalog)}
    loaded_files: list[tuple[str, str, Pipeline | Publication | ConfigurationError]] = []
    loaded_files += [("files.pipelines", *entry) for entry in load_all_pipelines(include)]
    loaded_files += [("files.publications", *entry) for entry in load_publications(include)]
    known = [name for _, name, _ in loaded_files]
    if unknown := [name for name in names if name not in known]:
        listed = format_names(known) or "none"
        raise ConfigurationError(f"name={unknown[0]}: no such pipeline or publication; there are: {listed}")
    for check, name, file in loaded_files:
        if names and name not in names:
            continue
        if isinstance(file, ConfigurationError):
            findings += [_make_problem(check, problem) for problem in file.problems]
        elif isinstance(file, Pipeline):
            files.pipelines.append(file)
            findings += [make_warning(check, text) for text in file.warnings]
        else:
            files.publications.append(file)
    findings += [make_warning("files.pipelines", text) for text in list_unread_warnings(include) if not names]
    numbers = f"catalogs={len(files.catalogs)} pipelines={len(files.pipelines)} publications={len(files.publications)}"
    if files.pipelines or files.publications:
        findings.append(make_ok("files.pipelines", f"{numbers}: can be used"))
    else:
        text = f"include={include}: no pipeline or publication can be used; propose one with: {FIRST_COMMAND}"
        findings.append(make_warning("files.pipelines", text))
    # each pipeline file repeats, or quotes, what is wrong with the catalogs
    repeats = [n for n, later in enumerate(findings) if any(first.cause in later.cause for first in findings[:n])]
    return files, [finding for n, finding in enumerate(findings) if n not in repeats]


def _make_problem(check: str, problem: str) -> Finding:
    return make_error("files.secrets" if "a secret in a file" in problem else check, problem)


def check_consumer_groups(pipelines: list[Pipeline]) -> Iterator[Finding]:
    """Warn of two pipelines that commit the same topics to one consumer group."""
    # a table that begins at the group's offsets may begin behind records that it has not read
    for pipeline, other in combinations(pipelines, 2):
        source = pipeline.source
        is_one_group = (source.group, source.kafka) == (other.source.group, other.source.kafka)
        if is_one_group and (topics := _list_common_topics(source, other.source)):
            text = (
                f"pipelines={pipeline.name}, {other.name}: both commit topics={format_names(topics)} to "
                f"group={source.group}, and each overwrites the other's offsets; give each a source.group of its own"
            )
            yield replace(make_warning("files.pipelines", text), used_by=(pipeline.name, other.name))


def _list_common_topics(source: Source, other: Source) -> list[str]:
    # two different patterns are not compared
    common = set(source.topics) & set(other.topics)
    if source.topic_pattern == other.topic_pattern and source.topic_pattern is not None:
        common.add(source.topic_pattern)
    for names, pattern in ((source.topics, other.topic_pattern), (other.topics, source.topic_pattern)):
        common |= {topic for topic in names if pattern is not None and re.fullmatch(pattern, topic)}
    return sorted(common)


def scan_for_secrets(include: Path, known_findings: list[Finding]) -> Iterator[Finding]:
    """Find lines of files with what looks like a secret, comments left out, without the `known_findings`."""
    known = [finding.cause for finding in known_findings if finding.check == "files.secrets"]
    for path in walk_files(include):
        place = format_path(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= MAX_FILE_BYTES else ""
        except OSError as error:
            text = f"{place}: file={path.name} cannot be looked through for secrets: {error.strerror}"
            yield make_warning("files.secrets", f"{text}; give the user the right to read it, or move it elsewhere")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            is_secret = has_secret(PLACEHOLDER_PATTERN.sub("", COMMENT_PATTERN.sub("", line)))
            if is_secret and not any(cause.startswith(f"{place}:{number}:") for cause in known):
                text = f"{place}:{number}: file={path.name} holds what looks like a password or a private key"
                advice = "put it into an Airflow connection, and change it: it may be in the history of the files"
                yield make_error("files.secrets", f"{text}; {advice}")
