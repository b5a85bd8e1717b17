"""The subcommands, one module per family; ``pcsuite.cli`` imports only the one that is called."""

from pathlib import Path
from typing import Any

DIR: dict[str, Any] = {"type": Path, "metavar": "DIR"}
FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}
"""What flags that name a folder or a file have in common."""
