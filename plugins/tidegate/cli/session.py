"""The session of the pipeline that a command names: the same for every command that works on one."""

import argparse

from tidegate.connections import read_connection_from_env
from tidegate.ports.session import Session
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def open_named_pipeline(words: argparse.Namespace) -> Session:
    return assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
