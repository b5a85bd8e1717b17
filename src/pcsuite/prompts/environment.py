"""The one Jinja2 environment: sandboxed, strict about undefined names, shared by all templates."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pcsuite.errors import PromptError

BASE_TEMPLATES = Path(__file__).parent / "base_templates"


@lru_cache(maxsize=8)
def environment(templates_dir: Path | None = None) -> ImmutableSandboxedEnvironment:
    """The environment; a user's ``templates_dir`` is searched before the bundled base templates."""
    folders = [BASE_TEMPLATES] if templates_dir is None else [templates_dir, BASE_TEMPLATES]
    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([str(folder) for folder in folders]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
        cache_size=1024,
    )


@lru_cache(maxsize=512)
def _compiled(source: str) -> Template:
    return environment().from_string(source)


def render_text(source: str, variables: dict[str, Any], *, where: str) -> str:
    """Render template text; ``where`` names it in errors."""
    try:
        return _compiled(source).render(variables).strip("\n")
    except TemplateError as error:
        raise PromptError(f"{where}: template cannot be rendered: {error}") from error


def render_file(name: str, variables: dict[str, Any], templates_dir: Path | None = None) -> str:
    """Render a base template by file name."""
    try:
        return environment(templates_dir).get_template(name).render(variables).strip("\n")
    except TemplateError as error:
        raise PromptError(f"{name}: template cannot be rendered: {error}") from error
