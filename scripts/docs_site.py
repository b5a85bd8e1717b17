"""What the documentation site (``make docs``, ``mkdocs.yml``) has beyond the pages of ``docs/``.

- Pages of the repository that documentation links to, and the configuration files among them, are part of the site.
- The Python reference is made of docstrings: a page for the front door, one for the statistics, one for what can be
  plugged in. Names come from the packages themselves, so that a new one is there by being public.
- Docstrings are written for reading in the editor; roles and examples become Markdown on the way.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "pcsuite"
REPOSITORY_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Pages outside ``docs/`` and where they are in the site."""
EXTENSION_POINTS = {
    "Models": "pcsuite.engines.adapters.base.ModelAdapter",
    "Scorers": "pcsuite.evaluation.base.Evaluator",
    "Constraint backends": "pcsuite.engines.constrained.ConstraintBackend",
    "Perturbations": "pcsuite.perturbations.kinds.Kind",
    "Executors": "pcsuite.runners.executors.Executor",
    "Retrievers": "pcsuite.retrieval.base.Retriever",
    "The registry": "pcsuite.registry.Registry",
    "Errors": "pcsuite.errors.PcsuiteError",
}
"""What can be plugged in: its class."""
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#]+)(?P<rest>[^)]*\))")
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>|<link\b[^>]*(?:stylesheet|preconnect|icon)[^>]*(?:https?:)?//[^>]*>"
)
ROLE = re.compile(r":(?:func|class|mod|meth|data|attr|exc|obj):`~?(?P<name>[^`]+)`")
EXAMPLE = re.compile(r"(?m)^(?P<block>>>> .*(?:\n(?!\s*$).*)*)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of ``docs/``."""
    for source, place in REPOSITORY_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    for name in sorted(linked_configurations()):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, text in reference_pages().items():
        files.append(File.generated(config, f"reference/api/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at where their targets are in the site; of a folder the words alone stay."""
    here = PurePosixPath(page.file.src_uri)
    origins = {place: source for source, place in REPOSITORY_PAGES.items()}
    origin = origins.get(str(here), f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(os.path.join(os.path.dirname(origin), target)).replace(os.sep, "/")  # noqa: PTH118, PTH120
        if (ROOT / path).is_dir():
            return match["text"]
        place = site_place(path)
        if place is None:
            return match[0]
        return (
            f"[{match['text']}](" + os.path.relpath(place, here.parent).replace(os.sep, "/") + match["rest"]
        )

    return LINK.sub(moved, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site one of whose pages would load something from another host."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        match = LOADED.search(path.read_text(encoding="utf-8"))
        if match:
            raise PluginError(f"{path.relative_to(config.site_dir)} loads from another host: {match[0]}")


def site_place(path: str) -> str | None:
    """Where a file of the repository is in the site, None where it is not."""
    if path in REPOSITORY_PAGES:
        return REPOSITORY_PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in linked_configurations() else None


def linked_configurations() -> set[str]:
    """Configuration files that pages may link to."""
    folders = {"*.yaml": "configs", "*.*": "configs/replications"}
    return {
        path.relative_to(ROOT).as_posix()
        for pattern, folder in folders.items()
        for path in (ROOT / folder).glob(pattern)
    }


def reference_pages() -> dict[str, str]:
    """Name and text of each page of the Python reference."""
    front = [f"::: {module}.{name}" for name, module in front_door().items()]
    plugs = [f"## {title}\n\n::: {name}" for title, name in EXTENSION_POINTS.items()]
    rooms = [
        f"## {module.rpartition('.')[2].replace('_', ' ')}\n\n"
        + "\n\n".join(f"::: {module}.{name}" for name in names)
        for module, names in statistics().items()
    ]
    return {
        "front-door": "# import pcsuite as pcs\n\n" + "\n\n".join(front) + "\n",
        "stats": "# pcsuite.stats\n\n" + "\n\n".join(rooms) + "\n",
        "extension-points": "# Extension points\n\n"
        "How each is used: [Plugging in](../plugging-in.md).\n\n" + "\n\n".join(plugs) + "\n",
    }


def front_door() -> dict[str, str]:
    """Public names of the package by the module that defines them, as type checkers see them."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    return {
        alias.name: str(node.module)
        for node in imports
        for alias in node.names
        if str(node.module).startswith("pcsuite.")
    }


def statistics() -> dict[str, list[str]]:
    """Public functions and classes of the statistics library, by module."""
    from pcsuite.stats import __all__ as public

    modules = {}
    for path in sorted((PACKAGE / "stats").glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        exported = [name for name in names if name in public]
        if exported:
            modules[f"pcsuite.stats.{path.stem}"] = exported
    return modules


class PlainDocstrings(griffe.Extension):
    """Docstrings as Markdown: roles become code, examples fenced blocks."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of whatever was read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """The docstring with roles as code and examples fenced.

    >>> as_markdown("See :func:`~a.b`.")
    'See `b`.'
    """
    text = ROLE.sub(lambda match: f"`{match['name'].rpartition('.')[2]}`", text).replace("](", "]\\(")
    return EXAMPLE.sub(lambda match: f"```pycon\n{match['block']}\n```", text)


def heading_id(text: str, separator: str) -> str:
    """The anchor that code hosts give a heading, so that links work in both places."""
    plain = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return plain.replace(" ", separator)
