"""Owns `make bench`: its options, the order of the runs, and that nothing it started outlives it."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
from confluent_kafka import KafkaException

from benchmarks import formats, latency, peer, product, report
from benchmarks.measure import cpu_seconds, resident_mb
from benchmarks.work import Truth, produce
from local.errors import StackError
from local.layout import ROOT, RunDir, default_run_dir
from local.stack import Stack, down, up
from local.state import State

RECORDS, KEYS, WARM_UP, QUICK = 1_000_000, 200_000, 20_000, 100_000
LATEST = ROOT / "benchmarks" / "results" / "latest.json"
FORMATS, LATENCY = LATEST.with_name("formats.json"), LATEST.with_name("latency.json")


@dataclass(frozen=True)
class Measured:
    """Everything that one run of the bench found out."""

    truth: Truth
    server: dict[str, float]
    warm_up: product.Flush
    flush: product.Flush
    peers: dict[str, peer.Run]
    reads: dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run the bench; 0 when every table was right, else 1."""
    options = _options(arguments)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    base = default_run_dir() / "bench"
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=base))
    done = False
    try:
        load = os.getloadavg()[0]
        if options.latency:
            right = _latency(options, folder, base)
        elif options.formats:
            right = _formats(options, folder, base)
        else:
            right = _tell(_measure(options, folder), options, base, load)
        done = True
        return 0 if right else 1
    except (StackError, RuntimeError, OSError, KafkaException) as error:
        print(f"bench: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("bench: interrupted, everything started was stopped", file=sys.stderr)
    finally:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)  # a second Ctrl-C must not leave servers behind
        down(folder / "stack")
        shutil.rmtree(folder if done else folder / "lakes", ignore_errors=True)  # after a failure the logs stay
    return 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="One flush and a hand-written peer, same records.")
    parser.add_argument("--records", type=_positive, metavar="N", help=f"records in the topic, {RECORDS:,} by default")
    parser.add_argument("--keys", type=_positive, default=KEYS, metavar="N", help=f"{KEYS:,} by default")
    parser.add_argument("--warm-up", type=_positive, default=WARM_UP, metavar="N", help="records of the first flush")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} records")
    parser.add_argument("--formats", action="store_true", help="what decoding each format costs, beside plain Spark")
    parser.add_argument("--latency", action="store_true", help="a record produced, its row seen, through Airflow")
    parser.add_argument("--record", action="store_true", help=f"also write {LATEST.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    options.records = options.records or (QUICK if options.quick else RECORDS)
    return options


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of records: use 1 or more")
    return number


def _formats(options: argparse.Namespace, folder: Path, base: Path) -> bool:
    """Measure the formats, print and write the figures; whether every record arrived on both sides."""
    _say("starting Kafka and the Spark Connect server ...")
    stack = up(folder / "stack", {"kafka", "spark"}, tied_to=os.getpid())
    _say(f"each format: {options.records:,} records staged by the product, and appended by plain Spark ...")
    found = formats.measure(stack, folder, options.records)
    path = report.write(base, {"records": options.records, "formats": found})
    if options.record:
        shutil.copy(path, FORMATS)
    print(f"\nCPU seconds of the Spark server per million records; {options.records:,} records\n")
    print(formats.table(found))
    print(f"\nWritten to {path}")
    return all(row["right"] for row in found)


def _latency(options: argparse.Namespace, folder: Path, base: Path) -> bool:
    """Measure small flushes through Airflow, print and write the figures; a slow machine is no fault."""
    _say(f"starting Kafka, Spark and Airflow; then {latency.FLUSHES} records, one after the other ...")
    found = latency.measure(folder)
    path = report.write(base, found)
    if options.record:
        shutil.copy(path, LATENCY)
    print(f"\n{latency.table(found)}\n\nload {found['load_before']} before, {found['load_after']} after; {path}")
    return True


def _measure(options: argparse.Namespace, folder: Path) -> Measured:
    """All runs, one after the other, on one stack."""
    include = product.write_include(folder, max(options.records, options.warm_up))
    logs = folder / "logs"
    logs.mkdir()
    _say("starting Kafka and the Spark Connect server ...")
    stack = up(folder / "stack", {"kafka", "spark"}, tied_to=os.getpid())
    server = _server(stack)
    _say(f"producing {options.records:,} records over {options.keys:,} keys ...")
    produce(stack.kafka_bootstrap, "warm_up", options.warm_up, options.keys)
    truth = produce(stack.kafka_bootstrap, "bench", options.records, options.keys)
    _say(f"warming the server up with a flush of {options.warm_up:,} other records ...")
    warm_up = product.flush(stack, include, "warm_up", logs / "warm_up.log")
    _say("product: one flush ...")
    flush = product.flush(stack, include, "bench", logs / "bench.log")
    peers = {}
    for name, warm in (("peer", None), ("peer_warm", "warm_up")):
        _say(f"peer: foreachBatch MERGE in a JVM of its own{', warmed up in the same way' if warm else ''} ...")
        peers[name] = peer.follow(stack.kafka_bootstrap, folder, name, "bench", warm)
    _say("reading every table ...")
    tables = [product.table(name) for name in ("bench", *peers)]
    reads = product.read(stack, include, tables, logs / "read.log")
    return Measured(truth, server, warm_up, flush, peers, reads)


def _server(stack: Stack) -> dict[str, float]:
    """What the Spark server's start took."""
    pid = int(stack.variables["SPARK_PID"])
    state = State.read(RunDir(stack.run_dir).state_file)
    wall = state.ready["spark"] if state else 0.0
    return {"wall": wall, "cpu": round(cpu_seconds(pid), 1), "mb": resident_mb(pid)}


def _rows(found: Measured) -> list[report.Row]:
    """The product, then the peer with and without its start, then the peer warmed up."""
    flush, peers = found.flush, found.peers
    parts = [
        ("product, warm server", "bench", flush.wall, flush.cpu, flush.worker_mb + flush.server_mb),
        ("peer, its start included", "peer", peers["peer"].done.wall, peers["peer"].done.cpu, peers["peer"].peak_mb),
        ("peer, after its start", "peer", peers["peer"].work.wall, peers["peer"].work.cpu, peers["peer"].peak_mb),
    ]
    warm = peers["peer_warm"]
    parts.append(("peer, after a warm-up", "peer_warm", warm.work.wall, warm.work.cpu, warm.peak_mb))
    rows = []
    for label, name, wall, cpu, peak in parts:
        read = found.reads[product.table(name)]
        worker = flush.worker_cpu if name == "bench" else None
        right = report.is_right(found.truth, read)
        rows.append(report.Row(label, round(wall, 2), round(cpu, 2), worker, peak, read, right))
    return rows


def _tell(found: Measured, options: argparse.Namespace, base: Path, load: float) -> bool:
    """Print the table, write the files; whether every table was right."""
    rows = _rows(found)
    machine = {"cores": psutil.cpu_count(), "load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
    results = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "records": options.records,
        "keys": options.keys,
        "warm_up_records": options.warm_up,
        "machine": machine,
        "truth": asdict(found.truth),
        "rows": report.as_json(rows),
        "server_start": found.server,
        "warm_up": asdict(found.warm_up),
        "product": asdict(found.flush),
        "peers": {name: asdict(run) for name, run in found.peers.items()},
    }
    path = report.write(base, results)
    if options.record:
        shutil.copy(path, LATEST)
    print(f"\n{options.records:,} records, {options.keys:,} keys; {_text(machine)}; ratio = product / row\n")
    print(report.table(rows))
    print(f"\nWhere the flush spends it ({found.flush.server_mb_before} MB in the server before it):\n")
    print(report.steps(found.flush))
    print(f"\nPaid once, not in the product's row: server start {_text(found.server)}")
    print(f"  warm-up flush wall={found.warm_up.wall:.1f} cpu={found.warm_up.cpu:.1f}")
    print(f"Peer's start: {_text(asdict(found.peers['peer'].ready))}. Written to {path}")
    return all(row.right for row in rows)


def _text(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={round(value, 1)}" for name, value in values.items())


def _say(line: str) -> None:
    print(f"bench: {line}", flush=True)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
