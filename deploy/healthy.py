#!/usr/bin/env python3
"""Answers a container's health check: ``healthy host:port``, ``healthy URL`` or ``healthy URL component``.

With a component, the URL is Airflow's health report, and the component must be reported healthy in it.
"""

import json
import socket
import sys
import urllib.request

SECONDS = 8


def main(place: str, component: str | None = None) -> int:
    """0 when `place` answers, and reports `component` as healthy if one is named; else 1."""
    try:
        if "://" not in place:
            host, port = place.rsplit(":", 1)
            socket.create_connection((host, int(port)), timeout=SECONDS).close()
            return 0
        with urllib.request.urlopen(place, timeout=SECONDS) as response:
            return 0 if component is None or json.load(response)[component]["status"] == "healthy" else 1
    except (OSError, ValueError, KeyError) as error:
        print(f"{place}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
