import html
import json
import re
from html.parser import HTMLParser

import pytest

from pcsuite.config.load import load_suite
from pcsuite.logging.manifest import read_manifest, write_manifest
from pcsuite.reporting.build import build_report
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile
from support.synthetic_log import Design, design_rows, make_row, write_log

pytestmark = pytest.mark.slow

HOSTILE = '</pre></textarea><script>alert("x")</script><img src=x onerror=alert(1)> =1+1 {{ 7 * 7 }} &amp;'


class Tags(HTMLParser):
    """Collects tags, attributes and the text of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text.append(data)


def parse(path):
    tags = Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    return tags


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        make_row(
            item=f"{HOSTILE}{k}", model=HOSTILE, condition=condition, text=HOSTILE, answer=HOSTILE, profile=HOSTILE,
            fields={"label": HOSTILE, HOSTILE: 1}, metrics={"note": HOSTILE}, score=float(k % 2),
            errors=[HOSTILE] if k == 5 else (), task=f"t{HOSTILE}", decoding="D1", seed=seed,
        )
        for k in range(6) for condition in ("C0", HOSTILE) for seed in (1, 2)
    ]  # fmt: skip
    log = write_log(folder / "runs" / "a.jsonl", rows, prompts=True)
    return build_report([log], folder)


def test_what_a_model_writes_stays_text(hostile_page):
    page = parse(hostile_page.index)
    # beside the page's own script there is data, which nothing runs
    assert page.tags.count("script") - page.attributes.count(("type", "application/json")) == 1
    assert "img" not in page.tags
    assert "textarea" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert any(HOSTILE in text for text in page.text)
    assert not any(HOSTILE in text for text in page.text if text.startswith('{"columns"'))
    assert "49" not in re.findall(r"\b49\b", "".join(page.text))


def test_plots_have_safe_names(hostile_page):
    assert hostile_page.plots
    for plot in hostile_page.plots:
        assert re.fullmatch(r"[A-Za-z0-9._-]+\.png", plot.name)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    design = Design(tasks=("agnews_json", "conll03_ner_json"), items=20, error_rate=0.02)
    log = write_log(folder / "runs" / "demo.jsonl", design_rows(design), prompts=True)
    with log.open("ab") as stream:
        stream.write(b"{broken\n")
    return build_report([log], folder)


def test_nothing_is_requested_from_outside(page):
    text = page.index.read_text(encoding="utf-8")
    tags = parse(page.index)
    references = [value for name, value in tags.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(value.startswith("#") for value in references)
    assert "@import" not in text
    assert "url(http" not in text
    assert "default-src 'none'" in text


def test_verdicts_come_first_and_name_the_simulation(page):
    text = "".join(parse(page.index).text)
    assert "Simulated: m1 is not a language model" in text
    # the answer, its figure and its alarms; then sentences, tables and rows
    first = text.index("What the run says")
    answer = text.index("best prompt")
    assert answer < text.index("Change of the score by each block") < text.index("Simulated: m1") < first
    assert first < text.index("Effects", first) < text.index("Rows to read") < text.index("What failed")
    assert re.search(
        r"C6 raised JSON validity from 0\.\d\d to 1\.00 against C0\. \+0\.\d\d, 95 % interval", text
    )


def test_failures_are_told(page):
    text = "".join(parse(page.index).text)
    assert re.search(r"1 malformed lines were left out \(first of them, by line: demo\.jsonl: \d+\)", text)
    assert "timeout after 60 s" in text


def test_rows_show_prompt_and_answer(page):
    text = "".join(parse(page.index).text)
    assert "Classify agnews_json-" in text
    assert '{"label": ' in text


def test_ids_are_unique(page):
    ids = re.findall(r'\bid="([^"]+)"', page.index.read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids))


def test_files_have_their_contract_names(page):
    assert {path.name for path in page.tables} >= {
        "runs.parquet", "runs.csv", "summary_by_condition.csv", "effects.csv", "entropy_per_item.csv",
        "entropy_by_condition.csv",
    }  # fmt: skip
    names = {path.name for path in page.plots}
    assert {
        "perf_condition_ladder__agnews_json__m1.png",
        "entropy_vs_condition__conll03_ner_json__m1.png",
    } <= names
    assert all(path.is_file() for path in [*page.tables, *page.plots])


def test_the_same_log_gives_the_same_page(page, tmp_path):
    log = page.index.parents[2] / "runs" / "demo.jsonl"
    again = build_report([log], tmp_path)
    assert again.index.read_text(encoding="utf-8") == page.index.read_text(encoding="utf-8")


def test_a_run_in_pieces_is_told_what_its_configurations_differ_in(tmp_path):
    """The second piece had more items and another wording; the first of a run before configurations were kept none."""
    profile = write_profile(tmp_path, conditions=("C0", "C3"), regimes=("D0",), items=3)
    run_suite(load_suite(profile), quiet=True)
    more = {"limits.max_items_per_task": 5, "selection.conditions": ["C0", "C3", "C4"]}
    log = run_suite(load_suite(profile, more), quiet=True).paths.log
    page = build_report([log], tmp_path / "outputs", plots=False).index.read_text(encoding="utf-8")
    said = re.search(
        r"Rows were written under 2 configurations: (.*?) For each cell the newest row counts", page
    )
    assert html.unescape(said[1]) in (
        "they differ in limits.max_items_per_task (3; 5) and selection.conditions"
        ' (["C0", "C3"]; ["C0", "C3", "C4"]).',
        "they differ in limits.max_items_per_task (5; 3) and selection.conditions"
        ' (["C0", "C3", "C4"]; ["C0", "C3"]).',
    )
    manifest = read_manifest(log)
    del manifest.configurations[json.loads(log.read_text().splitlines()[0])["config_hash"]]
    write_manifest(log, manifest)
    page = build_report([log], tmp_path / "outputs", plots=False).index.read_text(encoding="utf-8")
    assert "under 2 configurations: what 1 of them said was not kept when the rows were written." in page


def test_many_alarms_are_folded_and_none_is_lost(tmp_path):
    """A model that always answers the same, on nine tasks."""
    rows = [
        make_row(task=f"t{n}", item=f"{k}", condition=name, score=float(k % 2), answer="same")
        for n in range(9)
        for k in range(20)
        for name in ("C0", "C1")
    ]
    log = write_log(tmp_path / "runs" / "constant.jsonl", rows)
    text = build_report([log], tmp_path, plots=False).index.read_text(encoding="utf-8")
    alarms = re.findall(r'<(?:p|details) class="alarm"[^>]*>', text)
    first, folded = re.split(
        rf"<summary>{len(alarms) - 2} more alarms: [^<]*the same answer[^<]*</summary>", text
    )
    assert first.count(' class="alarm" role="alert">') == 2
    assert folded.count('<p class="alarm">') == len(alarms) - 2 >= 8
