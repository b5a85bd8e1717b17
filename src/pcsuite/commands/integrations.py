"""``pcsuite integrations``: list and install the other tools the suite can run."""

from __future__ import annotations

import argparse

from pcsuite.integrations.catalogue import INTEGRATIONS, find_integration
from pcsuite.integrations.environments import environment_dir, install, is_installed

EXAMPLES = """examples:
  pcsuite integrations list
  pcsuite integrations install promptbench
  pcsuite integrations install helm
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|install")
    listing = actions.add_parser("list", help="tools, and whether they are installed")
    listing.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    adding = actions.add_parser("install", help="install a tool into a virtual environment of its own")
    adding.add_argument("name", metavar="NAME", help="a name of the list")
    adding.add_argument("--force", action="store_true", help="make the environment anew")
    adding.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.action == "list":
        for tool in INTEGRATIONS.values():
            state = (
                f"installed in {environment_dir(tool)}"
                if is_installed(tool)
                else f"not installed: {tool.command}"
            )
            print(f"{tool.name} {tool.version}  {tool.summary}\n  {state} ({tool.size})")
        return 0
    tool = find_integration(args.name)
    if is_installed(tool) and not args.force:
        print(f"{tool.title} {tool.version} is already installed in {environment_dir(tool)}")
        return 0
    print(f"{tool.title} {tool.version}: {tool.size}")
    folder = install(tool, lambda line: print(f"  {line}", flush=True), force=args.force)
    print(f"{tool.title} {tool.version} is installed in {folder}")
    return 0
