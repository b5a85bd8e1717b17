"""A drawn figure as part of a page: tooltips, links, the page's ink.

The SVG takes its ink from the page (``currentColor``), so the same figure reads on light and dark. It carries no inline
style, which the view's content policy would refuse.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from pcsuite._util.text import visible
from pcsuite.pages.palette import INK, LINE, MUTED


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of one artist: its tooltip, where it leads, and the series that it belongs to or names."""

    series: int | None
    text: str = ""
    url: str | None = None
    names_series: bool = False


@dataclass(slots=True)
class Tips:
    """Tooltips, links and series of a figure in the making; each method gives the ``gid`` to put on an artist."""

    parts: dict[str, Part] = field(default_factory=dict)
    series: list[str] = field(default_factory=list)
    """Names of series, in the order in which they were first drawn."""

    def mark(self, text: str, *, url: str | None = None, series: str | None = None) -> str:
        """A mark with a tooltip, the address that it leads to, and its series."""
        return self._add(Part(self._number(series), visible(text), url))

    def part(self, series: str) -> str:
        """A line that belongs to a series."""
        return self._add(Part(self._number(series)))

    def legend_name(self, series: str) -> str:
        """The name of a series in a legend."""
        return self._add(Part(self._number(series), names_series=True))

    def _add(self, part: Part) -> str:
        key = f"part{len(self.parts)}"
        self.parts[key] = part
        return key

    def _number(self, series: str | None) -> int | None:
        if series is not None and series not in self.series:
            self.series.append(series)
        return None if series is None else self.series.index(series)


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

    def opened(match: re.Match[str]) -> str:
        key = match[2]
        tag, attributes, title = _opening(tips.parts[key], live)
        return f'{match[1]}<{tag} id="{key}"{attributes}>{title}{match[3]}{match[1]}</{tag}>'

    # matplotlib indents, so a group ends at the first closing tag that is indented as far as its opening one.
    body = re.sub(r'(?ms)^( *)<g id="(part\d+)">(.*?)^\1</g>', opened, body)
    # All figures of a page share one space of ids: each has its own prefix in it.
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}--\1"', body)
    body = re.sub(r'(xlink:href="#|url\(#)([^")]+)', rf"\1{name}--\2", body)
    body = re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg height="[^"]*" ', r"<svg \1", body, count=1
    )
    head = f'<svg role="{"group" if live else "img"}" aria-label="{html.escape(label)}" '
    return head + body.removeprefix("<svg ")


def _opening(part: Part, live: bool) -> tuple[str, str, str]:
    """Tag, further attributes and title of an artist's group."""
    text = html.escape(part.text)
    if not live:
        return "g", "", f"<title>{text}</title>" if text else ""
    if part.names_series:
        return "g", f' data-hides="{part.series}" role="button" tabindex="0" aria-pressed="true"', ""
    attributes = "" if part.series is None else f' data-series="{part.series}"'
    if text:
        attributes += f' data-says="{text}" aria-label="{text}"'
    if part.url is None:
        return "g", attributes, ""
    return "a", f'{attributes} href="{html.escape(part.url)}"', ""


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
