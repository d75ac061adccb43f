"""Owns what guards a broker's door: a certificate of an authority made for this stack, log-ins, and rights.

Two users: an administrator, and the one of the stack's connection, who may read and write records of every topic, but
use no consumer group, transaction or setting beyond those that `docs/security.md` lists.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local.errors import StackError
from local.ports import HOST

ADMINISTRATOR, USER = "admin", "tidegate"
MECHANISM = "PLAIN"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
VALID_DAYS = "365"


@dataclass(frozen=True)
class Guard:
    """The folder of the certificates, and the passwords by user."""

    folder: Path
    passwords: Mapping[str, str]

    def build_settings(self, listener: str) -> dict[str, object]:
        """A broker's, for the door of this name. Other doors are for this machine's brokers, who may do everything."""
        users = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
        door = f"listener.name.{listener.lower()}"
        return {
            "sasl.enabled.mechanisms": MECHANISM,
            f"{door}.{MECHANISM.lower()}.sasl.jaas.config": f"{LOGIN_MODULE} required {users};",
            f"{door}.ssl.keystore.type": "PEM",
            f"{door}.ssl.keystore.location": self.folder / "broker.pem",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:ANONYMOUS;User:{ADMINISTRATOR}",
            "allow.everyone.if.no.acl.found": "false",
        }

    def build_client(self, bootstrap: str, user: str) -> dict[str, str]:
        """librdkafka's settings of a user."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
            "ssl.ca.location": str(self.folder / "ca.pem"),
        }

    def write_client_file(self, settings: Mapping[str, str]) -> Path:
        """A user's settings as a file of librdkafka's form, for the owner's eyes: `kcat -F`."""
        file = self.folder / f"{settings['sasl.username']}.conf"
        file.touch(mode=0o600)
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return file


def build_guard(folder: Path) -> Guard:
    """Make an authority, the brokers' certificate, and passwords; StackError where `openssl` is missing or fails."""
    if shutil.which("openssl") is None:
        raise StackError("secure: no openssl was found: install it (Debian: openssl)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    make_certificates(folder)
    return Guard(folder, {name: secrets.token_urlsafe(15) for name in (ADMINISTRATOR, USER)})


def make_certificates(folder: Path) -> None:
    """Leave `ca.pem`, an authority, and `broker.pem`, the brokers' certificate with its key, in the folder."""
    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", VALID_DAYS)
    _run_openssl(folder, *new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    extensions = ("-addext", f"subjectAltName=IP:{HOST}", "-addext", "basicConstraints=CA:FALSE")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", *extensions)
    _run_openssl(folder, *new, "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "broker.crt", *signed)
    # with its key in one file, as Java reads it
    pem_file = folder / "broker.pem"
    pem_file.touch(mode=0o600)
    pem_file.write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())


def _run_openssl(folder: Path, *words: str) -> None:
    command = ("openssl", *words)
    process = subprocess.run(command, cwd=folder, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if process.returncode:
        reason = process.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise StackError(f"secure: openssl {words[0]} failed: {''.join(reason)}")
