"""What the site of the documentation names, looked up without the site's own tools."""

import ast
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "scripts" / "docs_site.py").read_text(encoding="utf-8")


def declared(name):
    """The value of a constant of the script, which cannot be imported without mkdocs."""
    return next(
        ast.literal_eval(node.value)
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]
    )


def test_every_extension_point_is_the_class_that_its_module_defines():
    for title, name in declared("EXTENSION_POINTS").items():
        module, _, cls = name.rpartition(".")
        assert getattr(importlib.import_module(module), cls).__module__ == module, title


def test_pages_of_the_repository_that_the_site_has_are_there():
    assert all((ROOT / page).is_file() for page in declared("REPOSITORY_PAGES"))
