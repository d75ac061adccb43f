"""Images of others, stood in for: what each does with its variables and mounts, done by programs of this machine.

| image | here |
| --- | --- |
| `apache/kafka` | the jars of the local stack; variables become settings by the image's documented rule |
| `postgres` | Debian's package; the first start runs the scripts of `/docker-entrypoint-initdb.d` |
| `chrislusf/seaweedfs` | moto, behind a `weed` that knows `server` and two words of `shell`; it checks no keys |
| `prom/prometheus` | Debian's package |
"""

import os
from collections.abc import Callable
from pathlib import Path

from containers.dockerfile import install_python
from containers.rootfs import Image, link_file, link_tree

KAFKA = """#!/bin/bash
set -eu
env | grep '^KAFKA_' | while IFS='=' read -r name value; do
    echo "$(tr 'A-Z_' 'a-z.' <<< "${name#KAFKA_}")=$value"
done > /tmp/server.properties
set -f
run="java -Xmx512m -Dlog4j2.configurationFile=/opt/kafka/log4j2.properties -cp /opt/kafka/libs/*"
$run kafka.tools.StorageTool format --ignore-formatted "--cluster-id=$CLUSTER_ID" -c /tmp/server.properties
exec $run kafka.Kafka /tmp/server.properties
"""
POSTGRES = """#!/bin/bash
set -eu
read_secret() { local file="$1_FILE"; if [ -n "${!file:-}" ]; then export "$1=$(cat "${!file}")"; fi; }
read_secret POSTGRES_PASSWORD
export POSTGRES_USER="${POSTGRES_USER:-postgres}" PATH="$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH"
data=/var/lib/postgresql/data
as="setpriv --reuid postgres --regid postgres --clear-groups"
mkdir -p /run/postgresql
chown postgres /run/postgresql "$data"
chmod 700 "$data"
if [ ! -s "$data/PG_VERSION" ]; then
    (umask 077; printf %s "$POSTGRES_PASSWORD" > /tmp/password)
    chown postgres /tmp/password
    $as initdb -D "$data" -U "$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
    $as pg_ctl -D "$data" -o "-c listen_addresses=''" -w start
    for script in /docker-entrypoint-initdb.d/*.sh; do $as "$script"; done
    $as pg_ctl -D "$data" -m fast -w stop
fi
exec $as postgres -D "$data" -c "listen_addresses=*"
"""
WEED = """#!/usr/local/bin/python
import sys, urllib.request
sys.path.insert(0, "/opt/moto")
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[2:])
if sys.argv[1] == "server":
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple
    moto = DomainDispatcherApplication(create_backend_app)
    def serve(environ, start):
        if environ["PATH_INFO"] != "/healthz":
            return moto(environ, start)
        start("200 OK", [("Content-Length", "0")])
        return [b""]
    run_simple("0.0.0.0", int(words["s3.port"]), serve, threaded=True)
host = words["master"].partition(":")[0]
for line in sys.stdin:
    if line.startswith("s3.bucket.create -name "):
        url = f"http://{host}:8333/{line.split()[-1]}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=b""), timeout=10)
    elif line.split() == ["s3.bucket.list"]:
        print(urllib.request.urlopen(f"http://{host}:8333/", timeout=10).read().decode())
    else:
        sys.exit(f"unknown word: {line}")
"""


def build_foreign_image(name: str, checkout: Path, folder: Path) -> Image:
    """What stands in for the image of this name; KeyError for one that nothing does."""
    files = folder / "files"
    files.mkdir(parents=True)
    return BUILDERS[name.partition("@")[0].rpartition(":")[0]](checkout, files)


def _build_kafka(checkout: Path, files: Path) -> Image:
    link_tree(checkout / ".cache" / "jars" / "kafka", files / "opt" / "kafka" / "libs")
    link_file(checkout / "local" / "log4j2.properties", files / "opt" / "kafka" / "log4j2.properties")
    data = files / "var" / "lib" / "kafka" / "data"
    data.mkdir(parents=True)
    os.chown(data, 1000, 1000)
    return Image(files, user="1000", entrypoint=(_write(files, "kafka-entrypoint", KAFKA),))


def _build_postgres(_: Path, files: Path) -> Image:
    (files / "var" / "lib" / "postgresql" / "data").mkdir(parents=True)
    return Image(files, entrypoint=(_write(files, "postgres-entrypoint", POSTGRES),))


def _build_store(checkout: Path, files: Path) -> Image:
    install_python(files)
    (packages,) = (checkout / ".cache" / "s3" / "lib").glob("python*/site-packages")
    link_tree(packages, files / "opt" / "moto")
    _write(files, "weed", WEED)
    return Image(files)


def _build_prometheus(checkout: Path, files: Path) -> Image:
    link_file(checkout / ".cache" / "promtool" / "usr" / "bin" / "prometheus", files / "usr" / "bin" / "prometheus")
    (files / "prometheus").mkdir()
    os.chown(files / "prometheus", 65534, 65534)
    return Image(files, user="65534", entrypoint=("/bin/prometheus",))


def _write(files: Path, name: str, text: str) -> str:
    path = files / "usr" / "local" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return f"/usr/local/bin/{name}"


BUILDERS: dict[str, Callable[[Path, Path], Image]] = {
    "apache/kafka": _build_kafka,
    "postgres": _build_postgres,
    "chrislusf/seaweedfs": _build_store,
    "prom/prometheus": _build_prometheus,
}
