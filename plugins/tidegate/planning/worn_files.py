"""Which files of a table are worth rewriting, by what is measured of them."""

from tidegate.ports.context import TableFiles
from tidegate.spec.runtime import Maintenance, UseWhen

# Iceberg's rewrite takes fewer small files of a partition for not worth it.
MIN_SMALL_FILES = 5
# From so many delete files on one data file, or deletes for such a share of its rows, reading pays for rewriting it.
DELETE_FILES, DELETED_SHARE = 10, 0.1
MIN_MANIFESTS = 50


def needs_compaction(settings: Maintenance, files: TableFiles) -> bool:
    """Whether data files are rewritten: as configured, or where enough small files or deletes are measured."""
    if settings.compact != UseWhen.AUTO:
        return settings.compact == UseWhen.ALWAYS
    return is_worn(files) or files.delete_files >= DELETE_FILES


def is_worn(files: TableFiles) -> bool:
    """Whether a partition has enough small files, or the table enough deleted rows, that rewriting them pays."""
    return files.max_small_files_per_partition >= MIN_SMALL_FILES or files.deleted_rows > DELETED_SHARE * files.rows


def has_many_manifests(files: TableFiles) -> bool:
    """Whether enough manifests are small that rewriting all of them pays; full ones would be written as they are."""
    return files.manifests - files.full_manifests >= max(MIN_MANIFESTS, files.full_manifests)
