"""Redis, the queue of Airflow's Celery executor: on the `PATH`, or from Debian's packages, unpacked below `.cache`."""

import debian

from local.airflow import redis
from local.layout import REDIS

PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")  # the program, and what it is linked with


def is_there() -> bool:
    return redis.find_program() is not None


def fetch() -> None:
    """Unpack Debian's packages where we may; whether it worked is for the caller to see."""
    for package in PACKAGES:
        debian.unpack(package, REDIS)
