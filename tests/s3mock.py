"""A second server that answers like S3, of other people than moto: Adobe's S3Mock, which keeps objects in files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from background_server import hold_server

from local import setup
from local.artifact import fetch_artifact, name_file, read_lock
from local.lake import s3
from local.layout import RunDir
from local.ports import HOST, choose_ports
from local.server import Server, build_clean_environment, build_program_command, create_log

FOLDER = setup.CACHE / "s3mock"
LOCK_FILE = Path(__file__).parent / "s3mock.sha256"
HEAP_SIZE = "256m"


def bring() -> None:
    """Fetch its program unless it is there."""
    digest, artifact = read_lock(LOCK_FILE)
    setup.build_unless_stamped(FOLDER, digest, artifact, lambda: fetch_artifact(LOCK_FILE, FOLDER))


@contextmanager
def run_s3mock(folder: Path) -> Iterator[str]:
    """Its address, with the bucket of the local stack's store in it; it ends with the context."""
    bring()
    port, tls_port = choose_ports(["s3mock", "s3mock_tls"]).values()
    settings = {
        "server.address": HOST,
        "server.port": str(tls_port),  # its door with TLS
        "com.adobe.testing.s3mock.httpPort": str(port),
        "com.adobe.testing.s3mock.store.root": str(folder / "objects"),
    }
    program = FOLDER / name_file(read_lock(LOCK_FILE)[1])
    options = (f"-Xmx{HEAP_SIZE}", *(f"-D{name}={value}" for name, value in settings.items()))
    server = Server(
        name="s3mock",
        command=build_program_command(program, *options),
        folder=folder,
        log=create_log(RunDir(folder), "s3mock"),
        probe=lambda _: s3.create_bucket(port, s3.BUCKET),
        env=build_clean_environment(),
    )
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    with hold_server(server):
        yield f"http://{HOST}:{port}"
