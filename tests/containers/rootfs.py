"""Root folders of containers: this machine's `/usr`, `/etc` and `/var` below what an image adds, and nothing else.

Only inside of the engine's own mount namespace.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

OVERLAID = ("usr", "etc", "var")  # of this machine, below the image's
# of every container; Python's own library lies where a base image would have told the linker
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/lib",
}


@dataclass
class Image:
    """What an image brings: a folder over this machine's, and how its program is started by default."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    user: str = "root"
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def run(*words: str) -> None:
    """A command that must succeed; CalledProcessError with its words in `stderr`."""
    subprocess.run(words, check=True, capture_output=True, text=True)


def mount_root(root: Path, lower: Path | None, upper: Path) -> None:
    """Make a root folder whose changes go into `upper`, over the image's folder `lower` and this machine's."""
    root.mkdir(parents=True)
    for name in OVERLAID:
        layers = [str(lower / name)] if lower and (lower / name).is_dir() else []
        for folder in (root / name, upper / name, upper / ".work" / name):
            folder.mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={':'.join([*layers, f'/{name}'])},upperdir={upper / name},workdir={upper / '.work' / name}"
        run("mount", "-t", "overlay", "overlay", "-o", options, str(root / name))
    for link in ("bin", "sbin", "lib", "lib64", "lib32"):
        if Path("/", link).is_symlink():
            (root / link).symlink_to(os.readlink(f"/{link}"))
    for name in ("proc", "dev", "sys", "tmp", "run", "root", "opt", "home"):
        (root / name).mkdir(exist_ok=True)
    run("mount", "-t", "proc", "proc", str(root / "proc"))
    run("mount", "--rbind", "/dev", str(root / "dev"))
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "tmp"))
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root / "run"))


def fill_root(root: Path, image: Image) -> None:
    """What the image has outside of the overlaid folders, each container with a copy of its own."""
    for place in image.folder.iterdir():
        if place.name not in (*OVERLAID, ".work"):
            run("cp", "-a", f"{place}/.", str(root / place.name)) if (root / place.name).exists() else run(
                "cp", "-a", str(place), str(root / place.name)
            )


def bind(source: Path, target: Path, *, is_read_only: bool = False) -> None:
    """Show a file or folder of this machine in a root folder."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():  # below a mount that may only be read, it must be there
            target.touch()
    run("mount", "--bind", str(source), str(target))
    if is_read_only:
        run("mount", "-o", "remount,bind,ro", str(target))


def link_tree(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    """The files of a folder in another one, without room for a second copy where the file system allows it."""
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name not in leave_out and name != "__pycache__"]
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            link_file(Path(folder, name), place / name)


def link_file(source: Path, target: Path) -> None:
    """One file, in the same way."""
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def build_command(root: Path, user: str, workdir: str, words: tuple[str, ...], *, has_rights: bool = True) -> list[str]:
    """The command line that runs words inside of a root folder, as one of its users."""
    name, _, group = user.partition(":")
    uid, gid, home = find_user(root, name)
    drop = ["setpriv", "--reuid", uid, "--regid", group or gid, "--clear-groups"]
    if not has_rights:
        drop += ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
    inner = ["env", "-C", workdir, f"HOME={home}", *words]
    return ["/usr/sbin/chroot", str(root), *drop, *inner]


def find_user(root: Path, name: str) -> tuple[str, str, str]:
    """Number, group and home of a user."""
    for line in (root / "etc" / "passwd").read_text().splitlines():
        fields = line.split(":")
        if name in (fields[0], fields[2]):
            return fields[2], fields[3], fields[5]
    return name, name, "/"
