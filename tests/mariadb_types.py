"""Every type of MariaDB that Debezium sends, in four modes of its connector: what MariaDB holds, and what is lost.

`mariadb_types.json.xz` holds key and value of each record as Debezium's MariaDB connector 3.4.0 sent them to a broker
from MariaDB 10.11. By mode: the rows 1 to 3 of table `kinds` from the snapshot, its row 11 from the binlog with the
values of row 1, and tables with a DECIMAL, a BIGINT UNSIGNED and a DATETIME(6) as their key.
"""

import json
import lzma
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from postgres_types import encode_unscaled, parse_point

POINT = "STRUCT<x: DOUBLE, y: DOUBLE, wkb: BINARY, srid: INT>"
HOUR = 3_600_000_000  # microseconds


def load_records() -> dict[str, dict[str, Any]]:
    """By mode and table: pairs of key and value, of the table `kinds` by the row's id."""
    return json.loads(lzma.decompress(Path(__file__).with_suffix(".json.xz").read_bytes()))


def show_local(moment: datetime) -> datetime:
    """A moment in UTC as Spark's client gives it."""
    return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


class Kind(NamedTuple):
    """One type: as MariaDB has it, as a pipeline file declares it, and what the rows 1 and 2 hold; row 3 holds NULL."""

    type: str
    column: str
    stored: tuple[Any, Any]


KINDS: dict[str, Kind] = {
    "b1": Kind("BOOLEAN", "INT", (1, 0)),
    "t": Kind("TINYINT", "INT", (-128, 127)),
    "tu": Kind("TINYINT UNSIGNED", "INT", (255, 0)),
    "s": Kind("SMALLINT UNSIGNED", "INT", (65535, 0)),
    "m": Kind("MEDIUMINT UNSIGNED", "INT", (16777215, 0)),
    "i": Kind("INT", "INT", (-2147483648, 2147483647)),
    "iu": Kind("INT UNSIGNED", "BIGINT", (4294967295, 0)),
    "big": Kind("BIGINT", "BIGINT", (-(2**63), 2**63 - 1)),
    "bu": Kind("BIGINT UNSIGNED", "DECIMAL(20,0)", (Decimal(2**64 - 1), Decimal(2**63))),
    "zf": Kind("INT(8) ZEROFILL", "BIGINT", (42, 1)),
    "f": Kind("FLOAT", "FLOAT", (0.10000000149011612, -1.5)),
    "f2": Kind("FLOAT(7,2)", "FLOAT", (12345.669921875, 0.0)),
    "d": Kind("DOUBLE", "DOUBLE", (1.7976931348623157e308, 5e-324)),
    "dec_": Kind("DECIMAL(12,2)", "DECIMAL(12,2)", (Decimal("-9999999999.99"), Decimal("0.00"))),
    "decu": Kind("DECIMAL(5,2) UNSIGNED", "DECIMAL(5,2)", (Decimal("999.99"), Decimal("0.00"))),
    "dec65": Kind("DECIMAL(65,2)", "STRING", (f"{'9' * 63}.99", "-1.00")),
    "bit1": Kind("BIT", "BOOLEAN", (True, False)),
    "bit9": Kind("BIT(9)", "BINARY", (b"\x01\x01", b"\x02\x00")),
    "bit64": Kind("BIT(64)", "BINARY", (b"\xff" * 8, bytes(8))),
    "c": Kind("CHAR(3)", "STRING", ("a", "")),
    "vc": Kind("VARCHAR(20)", "STRING", ("日本 \N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}", "")),
    "tx": Kind("TEXT", "STRING", ("x", "")),
    "lat": Kind("VARCHAR(20) CHARACTER SET latin1", "STRING", ("é", "")),
    "bin": Kind("BINARY(4)", "BINARY", (b"\x00\xff\x00\x00", bytes(4))),
    "vbin": Kind("VARBINARY(10)", "BINARY", (b"\x00\xff\x10", b"")),
    "bl": Kind("BLOB", "BINARY", (b"\x00\xff", b"")),
    "dat": Kind("DATE", "DATE", (date(1000, 1, 1), date(9999, 12, 31))),
    "tim": Kind("TIME", "BIGINT", (-(839 * HOUR) + 1_000_000, 24 * HOUR)),
    "tim6": Kind("TIME(6)", "BIGINT", (839 * HOUR - 1, 1)),
    "dt": Kind("DATETIME", "TIMESTAMP_NTZ", (datetime(1000, 1, 1), datetime(2026, 3, 29, 2, 30))),
    "dt3": Kind(
        "DATETIME(3)", "TIMESTAMP_NTZ",
        (datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(2026, 1, 1, 1, 2, 3, 456000)),
    ),
    # read as milliseconds the second one would be of the year 2053
    "dt6": Kind("DATETIME(6)", "TIMESTAMP_NTZ", (datetime.max, datetime(1970, 1, 31, 16, 0, 0, 123456))),
    "ts": Kind(
        "TIMESTAMP", "TIMESTAMP",
        (show_local(datetime(1970, 1, 1, 0, 0, 1)), show_local(datetime(2025, 12, 31, 22))),
    ),
    "ts6": Kind(
        "TIMESTAMP(6)", "TIMESTAMP",
        (show_local(datetime(2038, 1, 19, 1, 14, 7, 999999)), show_local(datetime(2025, 12, 31, 22, 0, 0, 1))),
    ),
    "y": Kind("YEAR", "INT", (1901, 2155)),
    "en": Kind("ENUM('a','b')", "STRING", ("b", "")),
    "se": Kind("SET('x','y','z')", "STRING", ("x,z", "")),
    "js": Kind("JSON", "STRING", ('{"b": 1,  "a": [1.50]}', "null")),
    "pt": Kind("POINT", POINT, (parse_point("(1.5,-2.5)"), None)),
    "u": Kind("UUID", "STRING", ("0d5ea2d8-1d9c-4c60-8c4b-3f2f5e6f7a8b", None)),
    "def": Kind("INT DEFAULT 7", "INT", (1, 2)),
    "defn": Kind(
        "DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)", "TIMESTAMP_NTZ", (datetime(1970, 1, 31, 16, 0, 0, 123456), None)
    ),
    "zd": Kind("DATE", "DATE", (date(2026, 1, 1), None)),  # '0000-00-00' in row 2
    "gen": Kind("INT AS (n * 2) STORED", "INT", (2, 4)),
    "virt": Kind("INT AS (n * 3) VIRTUAL", "INT", (3, 6)),
}  # fmt: skip


@dataclass(frozen=True)
class Mode:
    """Settings of the connector and its converter. `columns` are types that differ, and `lost` what arrives in rows 1
    to 3 in place of what MariaDB holds."""

    settings: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    lost: dict[str, tuple[Any, Any, Any]] = field(default_factory=dict)


WRAPPED = (Decimal(-1), Decimal(-(2**63)), None)  # BIGINT UNSIGNED in 64 bits with a sign
UNSCALED = (encode_unscaled(f"{'9' * 63}.99"), encode_unscaled("-1.00"), None)
EPOCH = datetime(1970, 1, 1)
NULLS_AS_DEFAULTS = {"def": (1, 2, 7), "defn": (datetime(1970, 1, 31, 16, 0, 0, 123456), EPOCH, EPOCH)}
MODES: dict[str, Mode] = {
    "defaults": Mode(
        {}, columns={"dec65": "BINARY"}, lost={"bu": WRAPPED, "dec65": UNSCALED, **NULLS_AS_DEFAULTS}
    ),
    "microseconds": Mode(
        {"time.precision.mode": "microseconds"},
        columns={"dec65": "BINARY"},
        lost={"bu": WRAPPED, "dec65": UNSCALED, **NULLS_AS_DEFAULTS},
    ),
    "connect": Mode(
        {
            "time.precision.mode": "connect", "decimal.handling.mode": "string", "binary.handling.mode": "hex",
            "bigint.unsigned.handling.mode": "precise", "value.converter.replace.null.with.default": "false",
        },
        options={"binary": {"bin": "hex", "vbin": "hex", "bl": "hex"}},
        columns={"tim": "INT", "tim6": "INT"},
        lost={
            "tim": (None, 86_400_000, None), "tim6": (None, 0, None),
            "dt6": (datetime(9999, 12, 31, 23, 59, 59, 999000), datetime(1970, 1, 31, 16, 0, 0, 123000), None),
            "defn": (datetime(1970, 1, 31, 16, 0, 0, 123000), None, None),
        },
    ),
    "plain": Mode(
        {
            "time.precision.mode": "isostring", "decimal.handling.mode": "double", "binary.handling.mode": "base64",
            "bigint.unsigned.handling.mode": "precise", "value.converter.schemas.enable": "false",
        },
        columns={"tim": "STRING", "tim6": "STRING", "bu": "STRING", "dec65": "DOUBLE"},
        lost={
            "tim": (None, "00:00:00Z", None), "tim6": (None, "00:00:00.000001Z", None),
            "bu": ("AP//////////", "AIAAAAAAAAAA", None), "dec65": (1e63, -1.0, None), **NULLS_AS_DEFAULTS,
        },
    ),
}  # fmt: skip
