import re
from html.parser import HTMLParser

import pytest

from pcsuite.verifier.compare import Rules, results_document, score_bytes
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.report import MOST_CARDS, f1_plot, marked, render_report, shown
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
        assert "href" not in attributes


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
    assert html.index("Field F1") < html.index("Discrepancies")
    assert len([1 for tag, attributes in parsed(html) if tag == "circle" and attributes["r"] != "10"]) == 3


def test_a_perfect_page_says_so():
    html = page(b'{"project": {"city": "Somewhere", "climate_zone": 7, "bedrooms": 3}}')
    assert "Every compared field is right." in html
    assert "1.000" in html


def test_an_unreadable_extraction_is_said_first():
    html = page(b"{")
    assert html.index("could not be read") < html.index("Field F1")


def test_values_show_their_type():
    assert (shown(12), shown("12"), shown(None), shown([1])) == ("12", '"12"', "null", "[1]")
    assert len(shown("x" * 5000)) < 400


@pytest.mark.parametrize("scores", [[0.0], [1.0], [0.2, 0.9, 0.9], [0.97] * 300])
def test_points_lie_inside_the_plot(scores):
    entries = [{"iteration": n, "f1": f1, "comparable": True} for n, f1 in enumerate(scores, start=1)]
    plot = f1_plot(entries, len(scores), 1)
    assert all(plot.left <= point.x <= plot.right and 0 <= point.y <= plot.bottom for point in plot.points)
    assert len([point for point in plot.points if point.labelled]) <= 13
    heights = [point.y for point in plot.points]
    assert sorted(range(len(scores)), key=lambda n: -heights[n]) == sorted(
        range(len(scores)), key=lambda n: scores[n]
    )


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
    items = ",".join(f'{{"name": "W{n}", "area": 1}}' for n in range(3 * MOST_CARDS))
    fields = ",".join(f'"k{n}": 1' for n in range(2000))
    html = page(f'{{"windows": [{items}], "project": {{{fields}}}}}'.encode())
    assert html.count("<article") == MOST_CARDS
    assert "further errors are not drawn here" in html
    assert len(html) < 1_500_000


def test_characters_that_differ_are_marked():
    expected, actual = marked("Upper Hall", "Uper Hall")
    assert str(expected) == '&#34;U<mark class="t">p</mark>per Hall&#34;'
    assert str(actual) == "&#34;Uper Hall&#34;"
    assert "mark" not in str(marked("Tile", "Asphalt shingle, grey")[0])
    assert str(marked(580.0, 590)[0]) == '5<mark class="t">8</mark>0'
    assert str(marked("<b>x", "<b>y")[1]).count("<b>") == 0
