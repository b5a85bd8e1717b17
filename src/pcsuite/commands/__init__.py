"""The subcommands, one module per family; ``pcsuite.cli`` imports only the one that is called."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DIR: dict[str, Any] = {"type": Path, "metavar": "DIR"}
FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
"""What flags that name a folder or a file have in common."""


class Command(NamedTuple):
    """A subcommand: its name, the module of this package that has it, its group in the help, and a line about it."""

    name: str
    module: str
    group: str
    summary: str


class CommandTable(NamedTuple):
    """The commands in the order of the help, and how to have the parser of one."""

    commands: Sequence[Command]
    parser_of: Callable[[Command], argparse.ArgumentParser]
