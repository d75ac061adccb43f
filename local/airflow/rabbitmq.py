"""Owns the RabbitMQ server through which Airflow's schedulers hand tasks to Celery's workers, in Redis' place."""

import os
import shutil
from pathlib import Path

from local.errors import StackError
from local.layout import RABBITMQ, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, create_log

USER = "tidegate"
MISSING = "rabbitmq: no RabbitMQ was found: install it (Debian: rabbitmq-server)"
PROGRAM = "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"
NODE_PORTS = ("rabbitmq_epmd", "rabbitmq_node")  # Erlang's own, which no other node of the machine may share


def build_server(run: RunDir, port: int, password: str, node_ports: tuple[int, int]) -> Server:
    """The server on `port`, with `password` for its one user; what waits in it outlives its restart."""
    program, folder = find_program(), run.path / "rabbitmq"
    if program is None:
        raise StackError(MISSING)
    settings = {"listeners.tcp.1": f"{HOST}:{port}", "default_user": USER, "default_pass": password}
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return Server(
        name="rabbitmq",
        command=(str(program),),
        folder=folder,
        log=create_log(run, "rabbitmq"),
        probe=lambda _: is_answering(port),
        env={**build_clean_environment(), **_build_variables(program, folder, node_ports)},
        variable="RABBITMQ_PID",
        prepare=lambda: _write_files(folder, text, _find_erlang(program)),
    )


def build_uri(port: int, password: str) -> str:
    """The address that Celery is given."""
    return f"amqp://{USER}:{password}@{HOST}:{port}//"


def find_program() -> Path | None:
    """The machine's own, or the one of Debian's packages that tests have unpacked. Not the one on the path: that
    changes to another user.
    """
    return next((path for root in (Path("/"), RABBITMQ) for path in sorted(root.glob(PROGRAM))), None)


def _build_variables(program: Path, folder: Path, node_ports: tuple[int, int]) -> dict[str, str]:
    """Where the node finds Erlang and keeps its things; it and its name service listen on this machine alone."""
    root = program.parents[6]
    libraries = [str(path) for path in root.glob("usr/lib/*-linux-gnu")] if root != Path("/") else []
    before = filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    epmd, node = map(str, node_ports)
    return {
        "HOME": str(folder),  # of the nodes' shared secret
        "PATH": os.pathsep.join([str(folder / "bin"), build_clean_environment()["PATH"]]),
        "LD_LIBRARY_PATH": os.pathsep.join([*libraries, *before]),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": epmd,
        "RABBITMQ_DIST_PORT": node,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{{HOST.replace('.', ',')}}}",
        "RABBITMQ_NODENAME": f"{USER}@localhost",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),  # not the machine's
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOGS": "-",
        "RUNNING_UNDER_SYSTEMD": "true",  # no shell stays between us and the node
    }


def _find_erlang(program: Path) -> Path:
    """Of the same packages."""
    return program.parents[4] / "erlang"


def _write_files(folder: Path, text: str, erlang: Path) -> None:
    """Write the settings and our own command `erl`: Debian's command works only in Debian's system folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    folder.chmod(0o700)
    settings, command = folder / "rabbitmq.conf", folder / "bin" / "erl"
    settings.touch(mode=0o600)
    settings.write_text(text)
    (programs,) = erlang.glob("erts-*/bin")
    variables = f"ROOTDIR='{erlang}' BINDIR='{programs}' EMU=beam PROGNAME=erl"
    lines = ("#!/bin/sh", f"'{programs}/epmd' -daemon", f"{variables} exec '{programs}/erlexec' \"$@\"")
    command.write_text("".join(f"{line}\n" for line in lines))
    command.chmod(0o700)
