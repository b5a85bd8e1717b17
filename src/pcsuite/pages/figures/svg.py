"""A drawn figure as part of a page: tooltips, links, the page's ink.

The SVG takes its ink from the page (``currentColor``), so the same figure reads on light and dark. It carries no inline
style, which the view's content policy would refuse.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pcsuite._util.text import visible
from pcsuite.pages.palette import INK, LINE, MUTED


class Mark(NamedTuple):
    """What a mark says when it is pointed at, and the address that it leads to."""

    text: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of an artist: the series that it belongs to or names, and its marks, one for each point."""

    series: int | None
    marks: Sequence[Mark] = ()
    names_series: bool = False


@dataclass(slots=True)
class Tips:
    """Tooltips, links and series of a figure in the making; :meth:`add` gives the ``gid`` to put on an artist."""

    parts: dict[str, Part] = field(default_factory=dict)
    series: list[str] = field(default_factory=list)
    """Names of series, in the order in which they were first drawn."""

    def add(self, *marks: Mark, series: str | None = None, names_series: bool = False) -> str:
        """An artist: a mark for each of its points (one for a bar), or a line or a name in the legend of a series."""
        if series is not None and series not in self.series:
            self.series.append(series)
        key = f"part{len(self.parts)}"
        shown = tuple(mark._replace(text=visible(mark.text)) for mark in marks)
        self.parts[key] = Part(None if series is None else self.series.index(series), shown, names_series)
        return key


def page_svg(svg: str, name: str, label: str, tips: Tips, *, live: bool = False) -> str:
    """matplotlib's SVG ready to stand in a page: own ids, the page's ink, tooltips, no prolog, no inline style.

    ``label`` says what it shows. A ``live`` figure is for pages with a script: its marks are links that say their text
    in ``data-says``, series are numbered in ``data-series``, and the names of a legend are buttons (``data-hides``).
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r'(<[^<>]*?) style="([^"]*)"', lambda match: match[1] + _as_attributes(match[2]), body)
    body = body.replace(INK, "currentColor").replace(LINE, "var(--line)").replace(MUTED, "var(--muted)")

    # matplotlib indents, so a group ends at the first closing tag that is indented as far as its opening one.
    body = re.sub(
        r'(?ms)^( *)<g id="(part\d+)">(.*?)^\1</g>',
        lambda match: f"{match[1]}{_part_group(match[2], tips.parts[match[2]], match[3], live)}",
        body,
    )
    # All figures of a page share one space of ids: each has its own prefix in it.
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}--\1"', body)
    body = re.sub(r'(xlink:href="#|url\(#)([^")]+)', rf"\1{name}--\2", body)
    body = re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg height="[^"]*" ', r"<svg \1", body, count=1
    )
    head = f'<svg role="{"group" if live else "img"}" aria-label="{html.escape(label)}" '
    return head + body.removeprefix("<svg ")


def _part_group(key: str, part: Part, content: str, live: bool) -> str:
    """The group of an artist with what is known of it."""
    attributes = ""
    if live and part.names_series:
        attributes = f' data-hides="{part.series}" role="button" tabindex="0" aria-pressed="true"'
    elif live and part.series is not None:
        attributes = f' data-series="{part.series}"'
    # Points are references to the shape of their marker, in the order in which they were given; a bar is the shape.
    points = re.findall(r"<use [^>]*/>", content)
    if part.marks and points:
        wrapped = (_wrapped(*pair, live) for pair in zip(part.marks, points, strict=True))
        content = re.sub(r"<use [^>]*/>", lambda _: next(wrapped), content)
    elif part.marks:
        content = _wrapped(part.marks[0], content, live)
    return f'<g id="{key}"{attributes}>{content}</g>'


def _wrapped(mark: Mark, shape: str, live: bool) -> str:
    """A shape with its tooltip, and as a link where the page has a script that shows them."""
    text = html.escape(mark.text)
    if not live:
        return f"<g><title>{text}</title>{shape}</g>"
    says = f'data-says="{text}" aria-label="{text}"'
    if mark.url is None:
        return f"<g {says}>{shape}</g>"
    return f'<a {says} href="{html.escape(mark.url)}">{shape}</a>'


def _as_attributes(css: str) -> str:
    """Declarations of a style as attributes of SVG.

    >>> _as_attributes("fill: none; font: 700 9px 'DejaVu Sans'")
    ' fill="none" font-weight="700" font-size="9px" font-family="\\'DejaVu Sans\\'"'
    """
    written = ""
    for name, value in (declaration.split(":", 1) for declaration in css.split(";") if declaration.strip()):
        font = re.fullmatch(r"(?:(\w+) )?([\d.]+px) (.+)", value.strip()) if name.strip() == "font" else None
        if font is not None:  # a shorthand that older matplotlib writes, and that attributes have not
            weight = f' font-weight="{font[1]}"' if font[1] else ""
            written += f'{weight} font-size="{font[2]}" font-family="{font[3]}"'
        else:
            written += f' {name.strip()}="{value.strip()}"'
    return written
