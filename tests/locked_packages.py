"""Packages of a lock file in a folder of their own: what some tests need and no requirement of the product names."""

import shutil
from pathlib import Path

from local import setup


def bring_packages(folder: Path, lock_file: Path, title: str) -> None:
    """Fetch them unless they are there as the lock says."""

    def install() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        python = setup.VENV / "bin" / "python"
        command = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--require-hashes", "--no-deps"]
        command += ["--python", str(python), "--target", str(folder), "-r", str(lock_file)]
        setup.run_command(f"install {title}", command, setup.build_uv_settings(python))

    setup.build_unless_stamped(folder, setup.compute_digest(lock_file), title, install)
