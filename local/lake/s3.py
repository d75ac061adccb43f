"""Owns the server that answers like S3: moto, keeping everything in memory and checking no keys."""

import urllib.error
import urllib.request

from local.errors import StackError
from local.lake import environment
from local.layout import RunDir
from local.ports import HOST
from local.server import Server, build_clean_environment, create_log

BUCKET, REGION = "lake", "us-east-1"


def build_server(run: RunDir, port: int) -> Server:
    """The server on `port`, with one bucket."""
    if not environment.is_built():
        raise StackError("s3: its environment is not there: run make setup WITH=s3")
    return Server(
        name="s3",
        command=(str(environment.SERVER), "-H", HOST, "-p", str(port)),
        folder=run.path / "s3",
        log=create_log(run, "s3"),
        probe=lambda _: create_bucket(port, BUCKET),
        env=build_clean_environment(),
        variable="S3_PID",
    )


def create_bucket(port: int, name: str) -> bool:
    """Create the bucket if it does not exist; False if the server does not answer."""
    request = urllib.request.Request(f"http://{HOST}:{port}/{name}", method="PUT", data=b"")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code == 409
    except (urllib.error.URLError, OSError):
        return False
