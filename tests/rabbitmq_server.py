"""RabbitMQ, a queue of Airflow's Celery executor: the machine's, or Debian's packages unpacked below `.cache`."""

import debian

from local.airflow import rabbitmq
from local.layout import RABBITMQ

ERLANG = (
    *("base", "asn1", "crypto", "public-key", "mnesia", "runtime-tools", "ssl", "eldap", "ftp", "tftp", "inets"),
    *("snmp", "os-mon", "parsetools", "syntax-tools", "tools", "xmerl"),
)
PACKAGES = ("rabbitmq-server", "libwrap0", *(f"erlang-{name}" for name in ERLANG))  # the program, and what it runs on


def is_there() -> bool:
    return rabbitmq.find_program() is not None


def fetch() -> None:
    """Unpack Debian's packages where we may; whether it worked is for the caller to see."""
    debian.unpack_all(PACKAGES, RABBITMQ)
