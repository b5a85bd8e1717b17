"""What each page shows, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import json
import re

import msgspec
import pytest

from support.synthetic_log import make_row, write_log
from view.conftest import ask, served


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, "runs in"),
        ("/run/first", 200, "12 items"),
        ("/run/first?only=fixed%3AC4", 200, "7 items"),
        ("/run/first?only=differ", 200, "A slice chosen after looking"),
        ("/run/nope", 404, "there is no run &#39;nope&#39;"),
        ("/run/first?task=nope", 404, "task: there is no &#39;nope&#39; here"),
        ("/run/first?columns=nope", 404, "columns: there is no &#39;nope&#39; here"),
        ("/run/first?base=C9", 404, "base: there is no &#39;C9&#39; here"),
        ("/run/first?page=x", 404, "page: &#39;x&#39; is no whole number"),
        ("/run/first/item/agnews_json/i03", 200, "C4 says <mark>yes</mark> to number 3"),
        ("/run/first/item/agnews_json/nope", 404, "no item"),
        ("/run/first/prompt/agnews_json/i03", 200, "Classify i03 under C4"),
        ("/run/hostile/prompt/agnews_json/huge", 404, "not at hand"),
        ("/run/first/scatter?x=C0&y=C4", 200, "C4 less C0"),
        ("/run/first/figures", 200, "Score by condition"),
        ("/run/first/figures?q=nowhere+to+be+found", 200, "nothing to draw"),
        ("/run/first/marks", 200, "marked"),
        ("/run/first/ablation", 404, "is no ablation"),
        ("/across?runs=first,second", 200, "effect against first"),
        ("/across?runs=first", 404, "two runs or more"),
        ("/run/first/operators?off=ROLE", 200, "Turn a block off"),
        ("/run/first/operators?base=C0&off=VERIFIER", 200, "not measured"),
    ],
)
def test_pages_answer_or_say_what_is_wrong(site, path, status, words):
    answer, text = ask(site, path)
    assert (answer.status, words in text) == (status, True), text[-600:]


def test_of_an_item_s_answers_the_one_that_others_are_held_against_comes_first(site):
    for base in ("C0", "C4"):
        _, text = ask(site, f"/run/first/item/agnews_json/i03?base={base}")
        named = re.findall(r"<h3[^>]*>\s*(?:<[^>]*>)*\s*(C\d)", text)
        assert named[0] == base, named
        assert len(set(named)) > 1


def test_effects_follow_the_filter(site):
    _, whole = ask(site, "/run/first")
    _, part = ask(site, "/run/first?only=fixed%3AC1")
    assert "+0.43" in whole  # 8.17 of 12 items less 3: replicates averaged within the item
    assert "+0.43" not in part


@pytest.mark.parametrize("end", ["", "/operators", "/scatter?x=C0&y=C1"])
def test_an_effect_of_the_form_is_told_beside_its_number_and_has_no_colour(site, end):
    _, text = ask(site, f"/run/formal{end}")
    assert "+1.00 by the strict rules" in text
    assert "0.00 by the lenient ones" in text
    assert ">the form, not the answer</abbr>" in text
    assert '<span class="good">+1.00' not in text
    assert "the form, not the answer" not in ask(site, f"/run/first{end}")[1]


def test_ambiguous_answers_are_shown_first_and_lead_to_their_labels(site):
    _, text = ask(site, "/run/unsure")
    assert "1 item with an answer that can be read in two ways comes first" in text
    assert text.index(">i2<") < text.index(">i0<")
    assert '<a href="/run/unsure/ambiguous">Ambiguous</a>' in text
    answer, text = ask(site, "/run/unsure/ambiguous")
    assert (answer.status, "0 of 1 answers that can be read in two ways are labelled" in text) == (200, True)
    assert "can be read in two ways" in ask(site, "/run/unsure/item/agnews_json/i2")[1]
    answer, text = ask(site, "/run/first/ambiguous")
    assert (answer.status, "no answer of run" in text) == (404, True)
    assert "/run/first/ambiguous" not in ask(site, "/run/first")[1]


@pytest.mark.slow
@pytest.mark.parametrize("run", ["failures", "single", "unscored", "models", "hostile"])
@pytest.mark.parametrize("end", ["", "/operators", "/figures", "/scatter", "/marks"])
def test_no_state_of_a_run_breaks_a_page(site, run, end):
    answer, text = ask(site, f"/run/{run}{end}")
    assert answer.status == 200, text[-400:]
    assert "nan" not in text.split("<main", 1)[1].split("</main>")[0].casefold().replace("nano", "")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/run/failures", "failed"),
        ("/run/failures/item/agnews_json/i0", "failed: 503"),
        ("/run/failures/figures", "has a score: there is nothing to draw"),
        ("/run/failures/operators", "Nothing can be compared"),
        ("/run/single/scatter", "Both are C0"),
        ("/run/single/operators", "Nothing can be compared"),
        ("/run/unscored", "no score"),
        ("/run/unscored/item/agnews_json/i0", "no score"),
        ("/run/hostile", "240 further columns"),
        ("/run/hostile/figures", "Only the first 40 conditions are drawn; 260 more"),
        ("/run/first?page=999", "page 1 of 1"),
        ("/run/first?q=nowhere", "No item is left by these filters"),
        ("/run/first?show=C0,+C4", "Only C0, C4 are shown"),
        ("/?q=secon", "1 found"),
        ("/?q=nowhere", "No run has"),
        ("/?page=999", "page 1 of 1"),
    ],
)
def test_odd_states_are_said_in_words(site, path, words):
    answer, text = ask(site, path)
    assert answer.status == 200
    said = " ".join(text.split())
    assert words in said or (words == "page 1 of 1" and "page 2" not in said), said[-2000:]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/run/first?only=fixed%3AC9", "only=fixed: there is no &#39;C9&#39;"),
        ("/run/first?only=nonsense", "only: there is no &#39;nonsense&#39;"),
        ("/run/first?sort=score%3AC9", "sort=score: there is no &#39;C9&#39;"),
        ("/run/first?sort=random", "sort: there is no &#39;random&#39;"),
        ("/run/first?show=C9", "show: there is no &#39;C9&#39;"),
        ("/run/first?marked=maybe", "marked: there is no &#39;maybe&#39;"),
        ("/run/first?tokens_from=-3", "tokens_from: &#39;-3&#39; is no whole number"),
        ("/run/first?page=%D9%A3", "is no whole number"),
        ("/run/first?page=99999999999999999999", "is no whole number"),
        ("/run/first/scatter?x=C9", "x: there is no &#39;C9&#39;"),
        ("/run/first/prompt/agnews_json/i03?left=C9", "left: there is no &#39;C9&#39;"),
        ("/run/first/operators?off=NOBODY", "off: there is no &#39;NOBODY&#39;"),
        ("/across?runs=first,nope", "there is no run &#39;nope&#39;"),
        ("/across?runs=first,second&condition=C9", "condition: there is no &#39;C9&#39;"),
        ("/run/firts", "did you mean &#39;first&#39;?"),
        ("/nowhere", "there is no such page"),
        ("/run/first/label?at=x", "no answers of run"),
    ],
)
def test_what_an_address_may_not_say_is_named_with_what_it_may(site, path, words):
    answer, text = ask(site, path)
    assert (answer.status, words in text) == (404, True), text[-1500:]
    assert 'href="/"' in text


@pytest.mark.parametrize(
    ("path", "place"),
    [
        # Other columns: what belonged to the old ones is dropped, and so are empty fields.
        ("/run/models?of=agnews_json/condition&task=agnews_json&columns=model&base=C1&only=fixed%3AC1&model=m2&q=",
         "/run/models?columns=model&model=m2&task=agnews_json"),
        ("/run/models?of=agnews_json/condition&task=svamp&columns=condition&base=C1&model=m2&label=x&q=yes",
         "/run/models?columns=condition&q=yes&task=svamp"),
        # The same task and columns: all stays.
        ("/run/models?of=agnews_json/condition&task=agnews_json&columns=condition&base=C1&only=&page=2",
         "/run/models?base=C1&columns=condition&page=2&task=agnews_json"),
    ],
)  # fmt: skip
def test_a_filter_form_leads_to_an_address_that_holds(site, path, place):
    answer, _ = ask(site, path)
    assert (answer.status, answer.headers["location"]) == (303, place)
    assert ask(site, place)[0].status == 200


def test_the_overview_says_what_came_out(site, folder):
    _, text = ask(site, "/")
    row = next(part for part in text.split("<tr") if 'href="/run/failures"' in part)
    assert "6 failed" in row
    row = next(part for part in text.split("<tr") if 'href="/run/single"' in part)
    assert ">3</td>" in row
    assert "0.33" in row


def test_a_log_that_is_still_being_read_has_a_page_that_comes_back(held_back):
    from pcsuite.view.bundle import HOST, _get
    from pcsuite.view.server import make_app

    viewer, go_on = held_back
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    status, text = asyncio.run(_get(app, "/run/one"))
    assert (status, "is being read for the first time" in text) == (202, True)
    assert asyncio.run(_get(app, "/run/one/live.json"))[0] == 202
    assert asyncio.run(_get(app, "/"))[0] == 200  # the others are not kept waiting
    go_on.set()
    viewer.close()


def test_the_beginning_of_a_log_is_shown_without_conclusions_until_all_of_it_is_read(half_read):
    from pcsuite.view.bundle import HOST, _get
    from pcsuite.view.server import make_app

    viewer, converted, go_on = half_read
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    status, text = asyncio.run(_get(app, "/run/one"))
    assert status == 200
    assert 'data-reading="/run/one/live.json"' in text
    assert "% of it, so nothing is concluded" in text
    assert "effect against" not in text
    assert [f"item-{number:02d}" in text for number in range(4)] == [True, True, False, False]
    assert asyncio.run(_get(app, "/run/one/item/agnews_json/item-01"))[0] == 200
    viewer._max_wait = 0.01
    assert converted.wait(60)
    # What is further on in the log, and what concludes, is there when all has been read.
    for place in ("item/agnews_json/item-07", "operators", "?task=other"):
        assert asyncio.run(_get(app, f"/run/one/{place}".replace("/?", "?")))[0] == 202, place
    state = json.loads(asyncio.run(_get(app, "/run/one/live.json"))[1])
    assert state["reading"] is True
    assert 0 < state["share"] < 1
    go_on.set()
    viewer._max_wait = 60
    assert asyncio.run(_get(app, "/run/one/item/agnews_json/item-07"))[0] == 200
    status, text = asyncio.run(_get(app, "/run/one"))
    assert (status, "data-reading" in text, "item-19" in text) == (200, False, True)
    assert asyncio.run(_get(app, "/run/one?task=other"))[0] == 404


@pytest.mark.slow
@pytest.mark.parametrize("said", [{"attempts": 2}, {"attempts": 1, "steps": 2}])
def test_steps_of_a_loop_or_a_target_are_a_timeline_and_a_large_log_is_read_for_them_only_when_asked(
    tmp_path, monkeypatch, said
):
    from pcsuite.view import data
    from pcsuite.view.bundle import HOST, _get
    from pcsuite.view.server import make_app
    from pcsuite.view.viewer import Viewer

    row = make_row(item="a")
    steps = [
        {"step": 1, "type": "search", "text": "a long <b>thought</b>\nof two lines"},
        {"step": 2, "type": "end"},
    ]
    row = msgspec.structs.replace(
        row, generation=msgspec.structs.replace(row.generation, transcript=steps, **said)
    )
    write_log(tmp_path / "runs" / "one.jsonl", [row])
    viewer = Viewer(tmp_path)
    app = make_app(viewer, token=None, hosts=frozenset({HOST}))
    path = "/run/one/item/agnews_json/a"
    _, text = asyncio.run(_get(app, path))
    assert "2 steps" in text
    assert "a long &lt;b&gt;thought&lt;/b&gt;" in text
    monkeypatch.setattr(data, "SMALL_LOG_BYTES", 0)
    _, text = asyncio.run(_get(app, path))
    assert "2 steps" not in text
    assert f"steps={row.run_id}" in text
    _, text = asyncio.run(_get(app, f"{path}?steps={row.run_id}"))
    assert "2 steps" in text
    viewer.close()


def test_what_a_system_of_ones_own_did_stands_below_its_answer_as_text(tmp_path):
    from pcsuite.engines.targets.changed import FileChange, FolderChanges

    row = make_row(item="a", text="done")
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+<script>alert(1)</script>\n"
    row = msgspec.structs.replace(
        row,
        model=msgspec.structs.replace(row.model, provider="target"),
        generation=msgspec.structs.replace(
            row.generation, loaded=[{"source": "AGENTS.md", "sha256": "cd" * 32}], stderr="<b>careful</b>"
        ),
        changed=FolderChanges([FileChange("x.py", "modified", diff)]),
    )
    plain = make_row(item="a", condition="C9", text="nothing beside it")
    write_log(tmp_path / "runs" / "one.jsonl", [row, plain])
    with served(tmp_path) as site:
        _, text = ask(site, "/run/one/item/agnews_json/a")
    assert text.count('<details class="transcript">') == 1
    assert '<ins class="line">+&lt;script&gt;alert(1)&lt;/script&gt;</ins>' in text
    assert "&lt;b&gt;careful&lt;/b&gt;" in text
    assert "cdcdcd" in text
    assert "1 file changed · 1 source · standard error" in text


def test_an_item_with_many_answers_is_paged(tmp_path):
    rows = [
        make_row(item="a", condition=f"C{k}", seed=seed, text=f"answer {k} {seed}")
        for k in range(10)
        for seed in range(5)
    ]
    write_log(tmp_path / "runs" / "many.jsonl", rows)
    with served(tmp_path) as site:
        _, first = ask(site, "/run/many/item/agnews_json/a")
        _, last = ask(site, "/run/many/item/agnews_json/a?page=3")
    assert "50 of 50 answers" in first
    assert (first.count("<article"), last.count("<article")) == (24, 2)
    assert "page 1 of 3" in first
    assert "answer 9 4" in last


def test_items_that_a_run_lacks_come_after_those_that_both_have(tmp_path):
    """b changes by 1 and a by nothing; c and d are in one run each and say nothing about a change."""
    for run, scores in (("one", {"a": 1, "b": 0, "c": 1}), ("two", {"a": 1, "b": 1, "d": 1})):
        rows = [make_row(item=item, score=float(score)) for item, score in scores.items()]
        write_log(tmp_path / "runs" / f"{run}.jsonl", rows)
    with served(tmp_path) as site:
        _, text = ask(site, "/across?runs=one,two")
    listed = re.findall(r"/item/agnews_json/(\w)", text.split("<tbody>")[1])
    assert list(dict.fromkeys(listed)) == ["b", "a", "c", "d"]


def test_paper_says_what_the_fields_of_a_page_say(site):
    _, text = ask(site, "/run/first?only=fixed%3AC4&q=yes&base=C0")
    words = re.search(r'<p class="printed">(.*?)</p>', text, re.DOTALL)[1]
    assert words == (
        "Run first: agnews_json, model m1, regime D0; columns: condition, compared with C0; only items fixed by C4 with"
        " “yes”."
    )


def test_a_reading_problem_is_told_in_words(tmp_path):
    row = make_row(item="a", text="World", answer=None)
    row.parsed.parse_errors.append("no JSON object: Expecting value: line 1 column 1 (char 0)")
    write_log(tmp_path / "runs" / "one.jsonl", [row])
    with served(tmp_path) as site:
        _, text = ask(site, "/run/one/item/agnews_json/a")
    assert "Expecting value" not in text
    assert "no JSON object: the text does not begin with one" in text


def test_cells_show_answers_and_columns_are_chosen(site):
    _, plain = ask(site, "/run/first")
    _, text = ask(site, "/run/first?cells=answers&show=C0,C4")
    assert "cell-answer" not in plain
    assert '<span class="clip cell-answer">C4 says yes to number 3</span>' in text
    assert "C1 says" not in text
    assert "Columns: 2 of 3" in text
    answer, _ = ask(site, "/run/first?of=agnews_json%2Fcondition&show=C0&show=C4&cells=answers")
    assert answer.getheader("location") == "/run/first?cells=answers&show=C0%2CC4"


def test_choosing_columns_changes_no_corrected_p_value(site):
    def p_values(text):
        return re.findall(r"p (&lt; [\d.]+|[\d.]+) ·", text.split("</thead>")[0])

    _, every = ask(site, "/run/first")
    _, one = ask(site, "/run/first?show=C0,C4")
    assert p_values(one) == p_values(every)[-1:]


def test_a_row_is_there_as_json(site):
    _, page = ask(site, "/run/first/item/agnews_json/i03")
    row = re.search(r"/run/first/row/(\w+)\.json", page)[1]
    answer, text = ask(site, f"/run/first/row/{row}.json")
    logged = json.loads(text)
    assert (answer.status, logged["run_id"], logged["task"]["item_id"]) == (200, row, "i03")
    answer, text = ask(site, "/run/first/row/nope.json")
    assert (answer.status, "the log has no row" in text) == (404, True)


def test_an_answer_is_rated_and_the_rating_taken_back(site, folder):
    _, page = ask(site, "/run/first/item/agnews_json/i03")
    row = re.search(r'name="row" value="(\w+)"', page)[1]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for rating, pressed in (("bad", 1), ("", 0)):
        body = f"row={row}&rating={rating}&back=/run/first/item/agnews_json/i03"
        answer, _ = ask(site, "/run/first/rate", method="POST", headers=form, body=body)
        assert (answer.status, answer.getheader("location")) == (303, "/run/first/item/agnews_json/i03")
        _, page = ask(site, "/run/first/item/agnews_json/i03")
        assert page.count('aria-pressed="true"') == pressed
    answer, text = ask(
        site, "/run/first/rate", method="POST", headers=form, body=f"row={row}&rating=superb&back=/"
    )
    assert (answer.status, "choose from: good, mixed, bad" in text) == (404, True)
    answer, text = ask(
        site, "/run/first/rate", method="POST", headers=form, body="row=nope&rating=good&back=/"
    )
    assert (answer.status, "has no answer" in text) == (404, True)
    (folder / "runs" / "first.ratings.ndjson").unlink()
