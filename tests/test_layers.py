"""One way through the house: a package imports from those before it, never from those after it.

What is named by a registry's ``"module:attribute"`` target is not imported, so plug-ins may sit anywhere: the verifier's
evaluator is one.
"""

import ast
import re
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
    ("contrasts",),  # which differences hold: arrays and item ids, a family, verdicts
    ("config",),
    ("data",),
    ("prompts",),
    ("perturbations",),
    ("engines",),  # finds a constraint backend by its registry's target
    ("constraints",),  # backends that steer adapters
    ("retrieval",),
    ("evaluation",),
    ("programs",),
    ("logging",),
    ("analysis",),
    ("pages",),  # what report, view and the other pages are built of: palette, figures
    ("reporting",),
    ("runners",),  # joins all of the above
    ("ablation",),  # a prompt as a task and its arms as conditions, run and judged
    ("optimization",),
    ("verifier",),  # its loop (improve) runs models; the rest needs configuration, stats and evaluation only
    ("importers",),
    ("integrations",),
    ("view",),
    ("api",),  # what Python callers and the commands call
    ("specified",),  # the specification's import paths, resolved to all of the above
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


def module_name(path):
    """``pcsuite.stats`` for its ``__init__.py``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(nodes, known):
    """Modules of ours that import statements name; ``from pcsuite.stats import bootstrap`` names the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from whole & known or {node.module} & known


def import_cycles(package=PACKAGE):
    """Imports inside functions of modules that import the importing one: ``(importing, imported)``."""
    trees = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    known = set(trees)
    direct, later = {}, {}
    for name, tree in trees.items():
        functions = [
            node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        inside = {part for function in functions for part in ast.walk(function)}
        for_types = {
            part
            for node in tree.body
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for part in ast.walk(node)
        }
        direct[name] = set(imported_modules(set(ast.walk(tree)) - inside - for_types, known))
        later[name] = set(imported_modules(inside, known))

    def reached(name):
        seen, pending = set(), [name]
        while pending:
            fresh = direct[pending.pop()] - seen
            seen |= fresh
            pending += fresh
        return seen

    return {(name, other) for name, found in later.items() for other in found if name in reached(other)}


@pytest.mark.slow
def test_no_import_waits_inside_a_function_because_of_a_cycle():
    # The front door and the commands import what they need when it is used, so that ``--help`` is instant.
    cycles = {
        (name, other) for name, other in import_cycles() if not re.match(r"pcsuite(\.commands\..*)?$", name)
    }
    assert not cycles


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import pcsuite.runners.plan", ["runners"]),
        ("from pcsuite.stats import bootstrap", ["stats"]),
        ("from pcsuite import __version__, reporting", ["reporting"]),
        ("def later():\n    from pcsuite.commands.run import execute_run", ["commands"]),
        ("import json\nfrom . import neighbour", []),
    ],
)
def test_every_form_of_import_is_seen(source, named):
    assert list(imported_packages(ast.parse(source))) == named
