"""The Dockerfile, carried out: its instructions in order, in a root folder of the image's own.

Three kinds of command are answered by what `make setup` fetched, as no network is at hand here: `apt-get`, whose JRE is
this machine's; `pip install`, from the locked environment and only the packages that the file asks for; and Maven, from
the verified jars. All others run as they stand.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from containers.rootfs import Image, build_command, link_file, link_tree, mount_root

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PACKAGES = f"usr/local/lib/python{PYTHON}/site-packages"
NOT_RUN = ("apt-get", "rm")
ENTRY = re.compile(r"^([a-z0-9._-]+)==", re.MULTILINE)


def build_image(checkout: Path, folder: Path, target: str) -> Image:
    """The stage `target` with those below it, in `folder`."""
    stages = dict(split_stages((checkout / "deploy" / "Dockerfile").read_text()))
    image = Image(folder / "files")
    root = folder / "root"
    mount_root(root, None, image.folder)
    chain = list_chain(stages, target)
    _check_python(stages[chain[0]][0])
    for stage in chain:
        for word, arguments in stages[stage][1]:
            _carry_out(image, root, checkout, word, arguments)
    for name in ("opt", "home", "poms"):  # outside of the overlays
        if (root / name).is_dir():
            subprocess.run(["cp", "-a", str(root / name), str(image.folder)], check=True)
    return image


def split_stages(text: str) -> Iterator[tuple[str, tuple[str, list[tuple[str, str]]]]]:
    """Of each stage its name, what it begins from, and its instructions."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    for part in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        first, *instructions = part.splitlines()
        base, _, name = first.split()
        yield name, (base, [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in instructions if line.strip()])


def list_chain(stages: dict[str, tuple[str, list[tuple[str, str]]]], target: str) -> list[str]:
    base = stages[target][0]
    return [*(list_chain(stages, base) if base in stages else []), target]


def _check_python(image: str) -> None:
    wanted = re.match(r"python:(\d+\.\d+)", image)
    assert wanted, f"no way to begin from image={image}"
    assert wanted[1] == PYTHON, f"the Dockerfile wants Python {wanted[1]}, and this is {PYTHON}"


def _carry_out(image: Image, root: Path, checkout: Path, word: str, arguments: str) -> None:
    if word == "ENV":
        for name, value in re.findall(r"(\w+)=(\S+)", arguments):
            image.environment[name] = re.sub(r"\$(\w+)", lambda match: image.environment[match[1]], value)
    elif word == "COPY":
        _copy(root, checkout, arguments.split())
    elif word == "RUN":
        for command in arguments.split("&&"):
            _run(image, root, command.strip())
    elif word == "USER":
        image.user = arguments
    elif word == "WORKDIR":
        image.workdir = arguments
    elif word in ("ENTRYPOINT", "CMD"):
        setattr(image, "entrypoint" if word == "ENTRYPOINT" else "command", tuple(json.loads(arguments)))
    else:
        raise AssertionError(f"instruction={word} is not known here")


def _copy(root: Path, checkout: Path, words: list[str]) -> None:
    options = [word for word in words if word.startswith("--")]
    *sources, target = [word for word in words if not word.startswith("--")]
    place = root / target.lstrip("/")
    if "--from=jars" in options:
        for name in ("spark", "s3"):
            for jar in (checkout / ".cache" / "jars" / name).glob("*.jar"):
                link_file(jar, place / jar.name)
        return
    paths = [path for source in sources for path in sorted(checkout.glob(source.rstrip("/")))]
    assert len(paths) >= len(sources), f"nothing is there to copy: {words}"
    for path in paths:
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-r", f"{path}/.", str(place)], check=True)
            continue
        file = place / path.name if target.endswith("/") else place
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, file)
        mode = next((option.removeprefix("--chmod=") for option in options), "644")
        file.chmod(int(mode, 8))


def _run(image: Image, root: Path, command: str) -> None:
    if command.startswith(NOT_RUN):
        return
    if command.startswith("useradd"):
        install_python(root)
    if command.startswith("pip install"):
        (listed,) = re.findall(r"-r (\S+)", command)
        names = set(ENTRY.findall((root / listed.lstrip("/")).read_text()))
        assert names, f"{listed} names no package"
        for distribution in distributions():
            if re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower() in names:
                _install(root, distribution)
        return
    words = build_command(root, image.user, image.workdir, ("bash", "-ec", command))
    process = subprocess.run(words, env=image.environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, f"RUN {command}: {process.stdout}{process.stderr}"


def install_python(root: Path) -> None:
    """The interpreter of this environment, without its packages, where the base image has it."""
    base = Path(sys.base_prefix)
    if base != Path("/usr/local"):
        link_tree(base, root / "usr" / "local", ("site-packages", "test", "idlelib", "share"))
    (root / PACKAGES).mkdir(parents=True, exist_ok=True)


def _install(root: Path, distribution: Distribution) -> None:
    """A package as pip lays it out: its files, and a script for each of its commands."""
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and source.is_file() and source.suffix != ".pyc":
            link_file(source, root / PACKAGES / file)
    for command in distribution.entry_points.select(group="console_scripts"):
        script = root / "usr" / "local" / "bin" / command.name
        code = f"import sys\nfrom {command.module} import {command.attr.split('.')[0]}\nsys.exit({command.attr}())\n"
        script.unlink(missing_ok=True)
        script.write_text(f"#!/usr/local/bin/python\n{code}")
        script.chmod(0o755)
