"""How a page is written: one environment of templates, and the style and script that every page gets.

A template is named by its path below the package (``reporting/templates/report.html.j2``) and extends
``pages/templates/base.html.j2``; it has the components as ``ui`` and says what is on its page, nothing more.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pcsuite.pages import words
from pcsuite.pages.palette import SYMBOLS, css_variables, score_shade

_PACKAGE = Path(__file__).parent.parent
_TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, *, served: bool = False, **context: Any) -> str:
    """The HTML of a page, by default one self-contained file: no request leaves it, and only our own script runs in it.

    Whatever is put into a template is escaped, since models and users wrote most of it, and a name that a page forgot
    is an error. A page that is ``served`` asks for style and script at ``/static/view.css`` and ``/static/view.js``,
    and its policy is sent with it.

        render_page("reporting/templates/runs.html.j2", runs=[])
    """
    return environment().get_template(template).render(served=served, **context)


@lru_cache(maxsize=1)
def stylesheet() -> str:
    """The style of all pages: the palette, then ``pages.css``."""
    return css_variables() + (_TEMPLATES / "pages.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The script of all pages: themes, filters, sorting; keyboard and live figures where a page is served."""
    return (_TEMPLATES / "pages.js").read_text(encoding="utf-8")


def script_hash(text: str) -> str:
    """The sha256 (base64) of a page's script, by which its policy allows this script and no other."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def segment(name: str) -> str:
    """A name as one part of an address, whatever it holds: browsers resolve ``..`` and split at ``/``.

    What they would resolve even when it is escaped gets a ``~`` before it, and so does what begins with one.

    >>> segment("../secret"), segment(".."), segment("~x")
    ('..%2Fsecret', '~..', '~~x')
    """
    quoted = quote(name, safe="", errors="backslashreplace")
    return f"~{quoted}" if quoted in (".", "..") or quoted.startswith("~") else quoted


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of all pages, each compiled once a process, with their filters and components."""
    templates = Environment(
        loader=FileSystemLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Safe because they are ours: nothing from outside ever gets into them.
    templates.globals.update(
        stylesheet=Markup(stylesheet()), script=Markup(script()), script_hash=Markup(script_hash(script()))
    )
    templates.globals["symbols"] = SYMBOLS
    templates.filters.update(words.FILTERS, shade=score_shade, segment=segment)
    templates.globals["ui"] = templates.get_template("pages/templates/components.html.j2").module
    return templates
