import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.cli import main
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.report import MAX_CARDS, render_report
from pcsuite.verifier.results import Rules, results_document, score_bytes
from pcsuite.verifier.store import summarise
from pcsuite.verifier.truth import parse_truth

TRUTH = b"field,value\nClimate Zone,7\nCity,Somewhere\nBedrooms,3\n"


def page(extraction, eval_id="house", history=()):
    mapping = load_mapping()
    rules = Rules(parse_truth(TRUTH, mapping), mapping)
    number = len(history) + 1
    document = results_document(
        score_bytes(extraction, rules, "x", strict=False), rules, eval_id, number, "prompt-3"
    )
    entries = [
        {"iteration": n, "f1": f1, "rules_hash": rules.rules_hash} for n, f1 in enumerate(history, start=1)
    ]
    entries.append({"iteration": number, "f1": document["metrics"]["f1"], "rules_hash": rules.rules_hash})
    return render_report(document, summarise(eval_id, entries, rules.rules_hash))


class Tags(HTMLParser):
    VOID = frozenset({"meta", "br", "wbr", "input", "link", "img"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(html):
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags.seen


def test_hostile_values_stay_text():
    hostile = b'{"project": {"city": "</td><script>alert(1)</script>", "climate_zone": "\\"><img src=x onerror=y>"}}'
    html = page(hostile, eval_id="<script>evil</script>")
    assert "<script>alert" not in html
    assert "<script>evil" not in html
    assert "<img" not in html
    assert [tag for tag, _ in parsed(html)].count("script") == 1


def test_hostile_keys_stay_text():
    html = page(b'{"<script>alert(1)</script>": {"a<b>_.&c": 1}}')
    assert "<script>alert" not in html
    assert "&lt;b&gt;" in html
    assert [tag for tag, _ in parsed(html)].count("script") == 1


def test_one_file_that_asks_nobody():
    html = page(b"{}")
    assert not re.search(r"https?://", html)
    for tag, attributes in parsed(html):
        assert tag != "link"
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")


def test_what_the_page_says():
    html = page(
        b'{"project": {"city": "Elsewhere", "climate_zone": "7", "fuel_type": "Gas"}}', history=(0.1, 0.0)
    )
    rows = [attributes for tag, attributes in parsed(html) if tag == "tr" and "data-kind" in attributes]
    assert sorted(row["data-kind"] for row in rows) == [
        "format_error",
        "hallucination",
        "omission",
        "wrong_value",
    ]
    assert "iteration 3" in html
    assert "prompt-3" in html
    assert "UTC" in html
    assert html.index("Field F1") < html.index("Discrepancies by item")
    assert len([1 for tag, attributes in parsed(html) if tag == "circle" and attributes["r"] != "10"]) == 3


def test_a_perfect_page_says_so():
    html = page(b'{"project": {"city": "Somewhere", "climate_zone": 7, "bedrooms": 3}}')
    assert "Every compared field is right." in html
    assert "1.000" in html


def test_an_unreadable_extraction_is_said_first():
    html = page(b"{")
    assert html.index("could not be read") < html.index("Field F1")


def test_a_card_for_each_item_and_its_errors_in_it():
    html = page(
        b'{"project": {"city": "Elsewhere", "climate_zone": 7}, "windows": [{"name": "W<1>", "area": 3}]}'
    )
    cards = [attributes for tag, attributes in parsed(html) if tag == "article"]
    assert [card["data-item"] for card in cards] == ["project", "windows[name=W<1>]"]
    assert [card["data-section"] for card in cards] == ["project", "windows"]
    assert "invented" in cards[1]["class"]
    assert "truth row 3" in html
    assert "/project/<wbr>city" in html or "/<wbr>project/<wbr>city" in html


@pytest.mark.slow
def test_a_page_draws_no_more_than_a_browser_can_use():
    items = ",".join(f'{{"name": "W{n}", "area": 1}}' for n in range(3 * MAX_CARDS))
    fields = ",".join(f'"k{n}": 1' for n in range(2000))
    html = page(f'{{"windows": [{items}], "project": {{{fields}}}}}'.encode())
    assert html.count("<article") == MAX_CARDS
    assert "further errors are not drawn here" in html
    assert len(html) < 1_500_000


# The page over all evals.

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"


@pytest.fixture
def overview(tmp_path):
    root = tmp_path / "evals"
    for name in ("two-gables", "salt-terrace", "heron-cottage"):
        shutil.copytree(SAMPLES / name, root / name)
    (root / "two-gables" / "extracted.json").write_bytes(
        (SAMPLES / "two-gables" / "extracted_poor.json").read_bytes()
    )
    assert main(["verify-all", str(root), "--instructions", "<b>p3"]) == 0
    return (root / "verify-all.html").read_text(encoding="utf-8")


def test_worst_first_with_both_means_and_their_intervals(overview):
    assert overview.index("two-gables</a>") < overview.index("heron-cottage</a>")
    assert overview.count("95 % interval") == 2
    assert "Macro-F1" in overview
    assert "Micro-F1" in overview
    assert 'href="two-gables/results/iteration-001/eval-report.html"' in overview
    assert "&lt;b&gt;p3" in overview
    assert "<b>p3" not in overview
    assert not re.search(r"https?://", overview)


def test_the_heat_map_has_the_fields_that_have_errors(overview):
    heat = overview[overview.index('class="heat') : overview.index("</table>")]
    columns = re.findall(r'<th scope="col" class="turned" title="([^"]+)"', heat)
    assert "windows[].u_factor" in columns  # wrong throughout in the poor extraction
    assert "project.city" not in columns  # right in all of them
    cells = re.findall(r'title="two-gables, windows\[\]\.u_factor: (\d+) errors, (\d+) values', heat)
    assert len(cells) == 1
    errors, values = map(int, cells[0])
    assert errors == values > 0
