"""Completion in bash, zsh and fish: the shell asks the command, and argcomplete answers from the parser's words."""

import argparse
import os
from typing import Any

COMPLETION_VARIABLE = "_ARGCOMPLETE"  # the shell function of `tidegate completion` sets it


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Where a shell asks what may come next, tell it and end the process; else do nothing."""
    if COMPLETION_VARIABLE in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def run_completion(words: argparse.Namespace) -> int:
    """Print what a shell runs at its start."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["tidegate"], shell=words.shell))
    return 0


def complete_names(*kinds: str) -> list[str]:
    """The pipelines or publications, or both, for which there are files; they are not read."""
    from tidegate.settings import find_include_folder, list_named_files

    include = find_include_folder()
    return sorted(path.stem for kind in kinds for path in list_named_files(include / f"{kind}s"))


def complete_file_names(prefix: str, **_: Any) -> list[str]:
    """YAML files and folders."""
    from argcomplete.completers import FilesCompleter

    names: list[str] = list(FilesCompleter(("yaml",))(prefix))
    return names
