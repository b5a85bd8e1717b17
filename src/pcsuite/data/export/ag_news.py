"""AG News topics: the CSV files of Zhang et al. (2015), or the hub's joined text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from pcsuite.data.export import base
from pcsuite.data.items import Item, Row
from pcsuite.errors import DataError

LABELS = ("World", "Sports", "Business", "Sci/Tech")

# The published files lost the ampersand of many escapes to a blank: " #39;" stands for "&#39;".
_BARE_NUMERIC = re.compile(r"(?<!&) ?#(\d{2,5}|x[0-9a-fA-F]{2,5});")
_BARE_NAMED = re.compile(r" (quot|amp|lt|gt|nbsp|hellip|apos|[mn]dash|[lr][sd]quo);")
# Only tags that are HTML: "<MSFT.O>" is a ticker and stays.
_TAG = re.compile(
    r"</?(?:a|b|br|cite|em|font|i|img|li|nobr|p|span|strong|table|td|tr|u|ul)(?:\s[^<>]*)?/?>", re.IGNORECASE
)


class AgNewsExporter(base.ItemExporter):
    """Test as published; dev is 5,000 of train by the fixed seed, train is the rest."""

    name = "ag_news"
    folders = ("ag_news", "ag_news_csv", "agnews")
    hub = base.HubTable("ag_news", "fancyzhx/ag_news")
    splits = (
        base.Split("train", 120000, ("train.csv", "train_part_*.csv")),
        base.Split("test", 7600, ("test.csv",)),
    )
    split_off = ("train", "dev", 5000)

    def file_rows(
        self, files: base.OriginalFiles, split: base.Split, options: base.ExportOptions
    ) -> Iterator[Row]:
        """Title and description joined by a blank, and the label's index from 0, as the hub has them.

        A first line without a class index is a header. Raises :class:`DataError` on any other line without one.
        """
        path = files.need(*split.files, split=split.name)
        for number, (line, (label, title, description)) in enumerate(files.csv_cells(path, 3)):
            where = f"{files.label(path)} line {line}"
            if label.strip() in {"1", "2", "3", "4"}:
                yield Row(where, {"text": f"{title} {description}", "label": int(label) - 1})
            elif number > 0 or label.strip().isdigit():  # else a header
                raise DataError(f"{where}: class index should be 1 to 4, found '{label}'")

    def item(self, row: Row, split: str, position: int) -> Item:
        label = row.get("label")
        if label not in range(4):
            raise row.error(f"'label' should be 0 to 3, found {label!r}")
        item_id = base.numbered(self.name, split, position)
        return Item(item_id, clean_news_text(row.text("text")), {"label": LABELS[label]})


def clean_news_text(text: str) -> str:
    """Undo HTML escapes, whole or bare, drop HTML tags and the backslashes that stood for line ends.

    >>> clean_news_text("The crew #39;s &lt;b&gt;sprint&lt;/b&gt;")
    "The crew's sprint"
    """
    text = _BARE_NUMERIC.sub(r"&#\1;", text)
    text = _BARE_NAMED.sub(r"&\1;", f" {text}")
    for _ in range(2):  # some escapes were escaped twice
        text = html.unescape(text)
    return base.collapse_spaces(_TAG.sub(" ", text).replace("\\", " "))
