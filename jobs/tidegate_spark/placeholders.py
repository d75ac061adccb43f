"""What stands for a large value that did not change, as columns of each type and a record's bytes hold it.

Debezium writes its placeholder in the column's own type: text as it is, bytes as its bytes, numbers as the codes of its
letters, days likewise since 1970, a UUID as the hash of its bytes, PostgreSQL's hstore as an object of it and itself.
"""

import base64
import hashlib
import json
from uuid import UUID

from tidegate.spark_sql import literal


def holds(value: str, kind: str, placeholder: str) -> str:
    """A condition: `value`, of the column type `kind`, is the placeholder."""
    text, codes = literal(placeholder), ", ".join(map(str, placeholder.encode()))
    as_object = literal(json.dumps({placeholder: placeholder}, separators=(",", ":")))
    binary = f"CAST({text} AS BINARY)"
    days = ", ".join(f"date_from_unix_date({code})" for code in placeholder.encode())
    forms = {
        "STRING": f"{value} IN ({text}, {as_object})",
        "BINARY": f"{value} = {binary}",
        "ARRAY<STRING>": f"{value} IN (array({text}), array({literal(hashed(placeholder))}))",
        "ARRAY<BINARY>": f"{value} = array({binary})",
        "ARRAY<DATE>": f"{value} = array({days})",
        "MAP<STRING, STRING>": f"map_keys({value}) = array({text})",
    }
    return forms.get(kind, f"{value} = CAST(array({codes}) AS {kind})")


def in_bytes(placeholder: str, lists: bool) -> tuple[bytes, ...]:
    """What the bytes of a record that holds it contain: JSON's forms and Avro's; `lists` adds those of lists."""
    found = placeholder.encode()
    text = (found, base64.b64encode(found))
    if not lists:
        return text
    return (*text, ",".join(map(str, found)).encode(), b"".join(map(_zigzag, found)), hashed(placeholder).encode())


def hashed(placeholder: str) -> str:
    """The placeholder as the UUID that Java makes of its bytes."""
    digest = hashlib.md5(placeholder.encode(), usedforsecurity=False).digest()
    return str(UUID(bytes=digest, version=3))


def _zigzag(number: int) -> bytes:
    """A number below 128 as Avro writes it."""
    twice = 2 * number
    return bytes([twice]) if twice < 0x80 else bytes([twice & 0x7F | 0x80, twice >> 7])
