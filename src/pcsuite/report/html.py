"""The report as one self-contained file: no request leaves it, and nothing a model wrote can run in it."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pcsuite.report.page import Page


def render_page(page: Page) -> str:
    """The HTML of a page. Everything is escaped except the suite's own style, script and figures."""
    templates = files("pcsuite.report") / "templates"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    script = (templates / "report.js").read_text(encoding="utf-8")
    # The page may run this script and no other, whatever the texts in it contain.
    script_hash = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return template.render(
        page=page,
        css=Markup((templates / "report.css").read_text(encoding="utf-8")),
        js=Markup(script),
        script_hash=Markup(script_hash),
    )
