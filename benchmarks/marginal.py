"""Part a: what another million records cost, (large - small) / the difference, for the product and its peers."""

from benchmarks import contest
from benchmarks.contest import PRODUCT, SPARK, Entry, Topic
from benchmarks.product import Flush, Lake
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.work import ONCE, produce

HEADER = ("", "records", "wall s", "CPU s", "peak MB", "read first/again", "rows", "right?", "product/row, CPU")


KINDS = {"repeated": "keys repeated", "once": "every key once", "wide": "every key once, rows of 1 kB"}
WIDE_SHARE = 4  # of so many rows of 200 bytes one is written in rows of 1 kB: about as many bytes


def measure(bench: Bench) -> Result:
    """Each kind of work in both sizes, every system on the same topics."""
    sizes, lake = bench.sizes, Lake(bench.folder)
    missing = contest.fetch_peers(contest.PEERS)
    systems = [system for system in contest.PEERS if system not in missing]
    produce(bench.stack.kafka_bootstrap, contest.WARM, sizes.warm_up, sizes.keys)
    by_kind: dict[str, dict[int, list[Entry]]] = {}
    for kind in sizes.kinds:
        is_wide = kind == "wide"
        for count in (sizes.small // WIDE_SHARE, sizes.large // WIDE_SHARE) if is_wide else (sizes.small, sizes.large):
            name = f"{kind}_{count}"
            bench.say(f"producing {count:,} records, {KINDS[kind]} ...")
            keys = sizes.keys if kind == "repeated" else ONCE
            topic = Topic(name, count, produce(bench.stack.kafka_bootstrap, name, count, keys, is_wide=is_wide))
            chosen_systems = (
                systems if count == sizes.small or not sizes.is_quick else [s for s in systems if s == SPARK]
            )
            by_kind.setdefault(kind, {})[count] = contest.compete(bench, lake, topic, chosen_systems)
    marginals = {kind: _compute_marginals(by_size) for kind, by_size in by_kind.items()}
    return Result(
        tables=[
            _build_marginal_table(marginals),
            *(_build_work_table(kind, sizes.keys, by_kind[kind]) for kind in by_kind),
            _build_step_table(by_kind["repeated"][sizes.small][0].flush),
        ],
        figures={f"{kind} {system}": value for kind in by_kind for system, value in marginals[kind].items()},
        goals=_list_goals(marginals),
        right=all(entry.right for by_size in by_kind.values() for entries in by_size.values() for entry in entries),
        missing=[f"{system}: {reason}" for system, reason in missing.items()],
    )


def _compute_marginals(by_size: dict[int, list[Entry]]) -> dict[str, float]:
    """CPU seconds of another million records, by system; of those that consumed both."""
    (small, small_entries), (large, large_entries) = sorted(by_size.items())
    before = {entry.system: entry.cpu for entry in small_entries}
    return {
        entry.system: round((entry.cpu - before[entry.system]) / (large - small) * 1e6, 2) for entry in large_entries
    }


def _list_goals(marginals: dict[str, dict[str, float]]) -> list[Goal]:
    repeated_keys, unique_keys = marginals["repeated"], marginals.get("once")
    goals = [Goal("CPU s of another million records, repeated keys", repeated_keys[PRODUCT], 5.0)]
    goals += [
        Goal(f"the same beside {system}", repeated_keys[PRODUCT], value)
        for system, value in repeated_keys.items()
        if system != PRODUCT
    ]
    if unique_keys is not None:
        goals.append(Goal("every key once, times a hand-written MERGE", _compare(unique_keys, PRODUCT), 1.2))
    if (wide := marginals.get("wide")) is not None:
        goals.append(Goal("rows of 1 kB, times a hand-written MERGE", _compare(wide, PRODUCT), 0.8))
    return goals


def _compare(marginals: dict[str, float], system: str) -> float:
    return round(marginals[system] / max(marginals[SPARK], 0.01), 2)


def _build_marginal_table(marginals: dict[str, dict[str, float]]) -> Table:
    lines = [
        (system, *(cell for values in marginals.values() for cell in _compare_with(values, system)))
        for system in marginals["repeated"]
    ]
    header = ("CPU s of another million records", *(cell for kind in marginals for cell in (kind, "product/row")))
    return Table("a. Marginal cost", header, lines)


def _compare_with(values: dict[str, float], system: str) -> tuple[str, str]:
    return format_number(values[system], 2), "" if system == PRODUCT else format_ratio(values[PRODUCT], values[system])


def _build_work_table(kind: str, keys: int, by_size: dict[int, list[Entry]]) -> Table:
    lines = [format_line(entry, entries[0], count) for count, entries in by_size.items() for entry in entries]
    description = f"over {keys:,} keys" if kind == "repeated" else KINDS[kind]
    return Table(f"One batch, {description}; the product's and Spark's start and warm-up left out", HEADER, lines)


def format_line(entry: Entry, product: Entry, count: int) -> tuple[str, ...]:
    """One system's line."""
    first, *later_reads = entry.read["reads"] if entry.read else [0.0, 0.0]
    rows = entry.read["rows"] if entry.read else 0
    return (
        entry.system, f"{count:,}", format_number(entry.wall), format_number(entry.cpu), str(entry.peak_mb),
        f"{first:.2f} / {min(later_reads):.2f}", f"{rows:,}", format_verdict(entry.right),
        "" if entry is product else format_ratio(product.cpu, entry.cpu),
    )  # fmt: skip


def _build_step_table(flush: Flush | None) -> Table:
    """Where the product's time goes."""
    steps = flush.steps if flush else {}
    lines = [
        (n, format_number(s["wall"], 2), format_number(s["server_cpu"], 2), format_number(s["worker_cpu"], 2))
        for n, s in steps.items()
    ]
    title = "Where the smaller flush of repeated keys spends it"
    return Table(title, ("step", "wall s", "server CPU s", "worker CPU s"), lines)
