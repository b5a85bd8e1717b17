"""One way through the house: a package imports from those before it, never from those after it.

What is named by a registry's ``"module:attribute"`` target is not imported, so plug-ins may sit anywhere: the verifier's
evaluator is one.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import pcsuite

PACKAGE = Path(pcsuite.__file__).parent
ORDER = (
    ("errors",),
    ("_util",),
    ("registry",),
    ("stats",),  # functions on arrays: they know no profile, no item and no log
    ("config",),
    ("data",),
    ("prompts",),
    ("perturbations",),
    ("engines", "constraints"),  # constraints steer adapters, and the session finds a constraint for a model
    ("retrieval",),
    ("evaluation",),
    ("programs",),
    ("logging",),
    ("analysis",),
    ("pages",),  # what report, view and the other pages are built of: palette, figures
    ("report",),
    ("runners",),  # joins all of the above
    ("ablation",),  # a prompt as a task and its arms as conditions, run and judged
    ("optimization",),
    ("verifier",),  # its loop (improve) runs models; the rest needs configuration, stats and evaluation only
    ("importers",),
    ("integrations",),
    ("view",),
    ("api",),  # what Python callers and the commands call
    ("pytest_plugin",),
    ("commands",),
    ("cli",),
    ("__init__",),  # the front door
    ("__main__",),  # python -m pcsuite
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def imported_packages(tree):
    """Packages and top-level modules of ours that a module names in an import, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "pcsuite" and len(parts) > 1:
                    yield parts[1]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            parts = (node.module or "").split(".")
            if parts[0] == "pcsuite" and len(parts) > 1:
                yield parts[1]
            elif parts[0] == "pcsuite":
                # ``from pcsuite import __version__`` is a word, ``from pcsuite import stats`` a package.
                yield from (alias.name for alias in node.names if alias.name in RANK)


def upward_imports():
    """Imports against the order: ``(package, imported)`` with the modules that do it."""
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        package = inside.parts[0].removesuffix(".py")
        for target in imported_packages(ast.parse(path.read_text(encoding="utf-8"))):
            if RANK[target] > RANK[package]:
                found[package, target].add(inside.as_posix())
    return found


def test_the_order_names_every_package():
    units = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert units == set(RANK)


@pytest.mark.slow
def test_packages_import_downwards_only():
    assert not {pair: sorted(modules) for pair, modules in upward_imports().items()}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import pcsuite.runners.plan", ["runners"]),
        ("from pcsuite.stats import bootstrap", ["stats"]),
        ("from pcsuite import __version__, report", ["report"]),
        ("def later():\n    from pcsuite.commands.run import execute_run", ["commands"]),
        ("import json\nfrom . import neighbour", []),
    ],
)
def test_every_form_of_import_is_seen(source, named):
    assert list(imported_packages(ast.parse(source))) == named
