"""Owns the choice of TCP ports: set by the user, or free ones that stay free while a server restarts."""

import os
import random
import socket

from local.errors import StackError

HOST = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections (Linux 32768, macOS 49152), so that nothing
# grabs a port in the seconds in which its server restarts.
PORT_RANGE = range(20000, 32000)


def choose_ports(names: list[str]) -> dict[str, int]:
    """A port for each name, all different: TIDEGATE_<NAME>_PORT if set, else a random free one."""
    ports: dict[str, int] = {}
    for name in names:
        variable = f"TIDEGATE_{name.upper()}_PORT"
        value = os.environ.get(variable)
        ports[name] = _parse_port(variable, value) if value else _find_free_port(set(ports.values()))
    return ports


def is_answering(port: int) -> bool:
    """Whether something accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _parse_port(variable: str, value: str) -> int:
    if not value.isdigit() or not 0 < int(value) < 65536:
        raise StackError(f"{variable}={value} is not a port number")
    if not _is_free(int(value)):
        raise StackError(f"port taken: {variable}={value}; stop what listens there, or unset the variable")
    return int(value)


def _find_free_port(used_ports: set[int]) -> int:
    for port in random.sample(PORT_RANGE, 200):
        if port not in used_ports and _is_free(port):
            return port
    raise StackError(f"no free port among 200 tried between {PORT_RANGE.start} and {PORT_RANGE.stop} on {HOST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
