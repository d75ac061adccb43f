"""The size of every part: in a full run, and in a quick run that only checks that the parts work."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Numbers of records, keys, rows and rounds."""

    kinds: tuple[str, ...]  # of work: keys repeated, or each once, in rows of 200 bytes, or wide, of 1,000
    small: int  # a batch, and the larger one that the marginal cost is taken from
    large: int
    keys: int
    warm_up: int
    changed: int  # keys of a small flush
    tables: tuple[int, ...]  # rows of the tables that it goes into
    repeats: int  # a small flush is measured so often, and the median counts
    read_rows: int
    read_changed: int
    reads_after: tuple[int, ...]  # flushes; behind the 9th, 19th … is a compaction, so 108 is the worst moment
    cores: int  # records for one core and for two
    memory: tuple[int, int]  # records of a batch
    formats: int
    latency: int  # records through the scheduler
    pipelines: int
    published: int  # rows of a table that is published
    followed: tuple[int, ...]  # rows of tables of format 3 with as many changes each
    verified: int  # rows of a table that is compared with its topic
    peer_seconds: float  # seconds that a peer may take
    is_quick: bool = False  # it only shows that things work: peers that take long to start do so once


FULL = Sizes(
    kinds=("repeated", "once", "wide"),
    small=1_000_000, large=4_000_000, keys=200_000, warm_up=20_000,
    changed=10_000, tables=(1_000_000, 10_000_000), repeats=3,
    read_rows=1_000_000, read_changed=10_000, reads_after=(1, 10, 18, 100, 108),
    cores=1_000_000, memory=(1_000_000, 10_000_000), formats=300_000, latency=30, pipelines=200, published=1_000_000,
    followed=(1_000_000, 10_000_000), verified=10_000_000,
    peer_seconds=900,
)  # fmt: skip
QUICK = Sizes(
    kinds=("repeated",),
    small=50_000, large=200_000, keys=10_000, warm_up=5_000,
    changed=1_000, tables=(50_000, 200_000), repeats=1,
    read_rows=50_000, read_changed=1_000, reads_after=(1, 3, 10),
    cores=100_000, memory=(50_000, 200_000), formats=20_000, latency=5, pipelines=50, published=20_000,
    followed=(20_000, 200_000), verified=50_000,
    peer_seconds=150, is_quick=True,
)  # fmt: skip
