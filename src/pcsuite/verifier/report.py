"""``eval-report.html``: one self-contained page per iteration."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from pcsuite.verifier.plot import f1_plot
from pcsuite.verifier.scores import ERROR_TYPES

_MAX_SHOWN = 300
ERROR_NAMES = {
    "omission": "Omission",
    "hallucination": "Hallucination",
    "format_error": "Format error",
    "wrong_value": "Wrong value",
}
ERROR_MEANINGS = {
    "omission": "in the truth, missing in the extraction",
    "hallucination": "in the extraction, not in the truth",
    "format_error": "given, but of the wrong type",
    "wrong_value": "given, of the right type, but another value",
}


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pcsuite.verifier", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    environment.filters["breakable"] = breakable
    environment.filters["percent"] = lambda value: f"{100 * value:.1f}"
    environment.filters["score"] = lambda value: f"{value:.3f}"
    return environment.get_template("eval-report.html.j2")


def breakable(path: str) -> Markup:
    """A path that may wrap after a dot or an underscore, and not within a word."""
    return Markup(str(escape(path)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def shown(value: Any) -> str:
    """A JSON value as text, so that 12 and "12" look different; long ones are cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + " …"


def render_report(document: dict[str, Any], aggregate: dict[str, Any]) -> str:
    """The page of a results document; ``aggregate`` includes it."""
    sections = sorted(document["by_section"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    fields = sorted(document["by_field"].items(), key=lambda entry: (entry[1]["f1"], entry[0]))
    discrepancies = [
        {**entry, "section": _section(entry["field_path"]), "row": index + 1}
        for index, entry in enumerate(document["discrepancies"])
    ]
    return _template().render(
        doc=document,
        metrics=document["metrics"],
        aggregate=aggregate,
        sections=sections,
        fields=fields,
        discrepancies=discrepancies,
        section_names=sorted({entry["section"] for entry in discrepancies}),
        error_types=ERROR_TYPES,
        error_names=ERROR_NAMES,
        error_meanings=ERROR_MEANINGS,
        plot=f1_plot(aggregate["iterations"], document["iteration"], aggregate["best_iteration"]),
        latest=next((e for e in aggregate["iterations"] if e["iteration"] == document["iteration"]), None),
    )


def _section(path: str) -> str:
    return path.split(".")[0].split("[")[0]
