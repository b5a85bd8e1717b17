from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.items import (
    Item,
    ItemSource,
    Row,
    closed_answers,
    dump_line,
    exemplars,
    load_items,
    read_items,
    sample_items,
    split_off,
)
from pcsuite.errors import DataError

LINE = '{"item_id": "a", "input_text": "one", "truth": {"label": "x"}}'


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A cache folder and a samples folder."""
    (tmp_path / "cache" / "datasets").mkdir(parents=True)
    (tmp_path / "samples").mkdir()
    return tmp_path / "cache", tmp_path / "samples"


def test_the_cache_comes_before_the_sample(folders):
    cache, samples = folders
    (samples / "news_test.jsonl").write_text(LINE.replace("one", "bundled"), encoding="utf-8")
    items, source = load_items("news", "test", cache, samples=samples)
    assert source == ItemSource("sample", samples / "news_test.jsonl")
    assert source.describe() == "bundled sample"
    assert items == [Item("a", "bundled", {"label": "x"})]
    (cache / "datasets" / "news_test.jsonl").write_text(LINE, encoding="utf-8")
    items, source = load_items("news", "test", cache, samples=samples)
    assert source == ItemSource("cache", cache / "datasets" / "news_test.jsonl")
    assert source.describe() == "exported dataset"
    assert items[0].input_text == "one"


def test_files_named_by_items_start_from_where_the_items_came_from(folders, tmp_path):
    cache, samples = folders
    (samples / "news_test.jsonl").write_text(LINE, encoding="utf-8")
    (bundled,) = load_items("news", "test", cache, samples=samples).items
    assert bundled.file("databases/a.sqlite") == samples / "databases" / "a.sqlite"
    (cache / "datasets" / "news_test.jsonl").write_text(LINE, encoding="utf-8")
    (exported,) = load_items("news", "test", cache, samples=samples).items
    assert exported.file("datasets/databases/a.sqlite") == cache / "datasets" / "databases" / "a.sqlite"
    assert exported.file(str(tmp_path / "b.sqlite")) == tmp_path / "b.sqlite"
    assert exported == bundled, "the folder is no part of an item's content"
    assert Item("a", "one", {}).file("b.sqlite") == Path("b.sqlite")


def test_missing_items_name_the_places_and_the_nearest_set(folders):
    cache, samples = folders
    (samples / "news_test.jsonl").write_text(LINE, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load_items("newz", "test", cache, samples=samples)
    message = str(caught.value)
    assert str(cache / "datasets" / "newz_test.jsonl") in message
    assert "did you mean 'news_test'?" in message
    assert "pcsuite export-datasets" in message


def test_byte_order_mark_crlf_blank_lines_and_odd_separators(tmp_path):
    path = tmp_path / "x.jsonl"
    second = LINE.replace('"a"', '"b"').replace("one", "t\u2028wo\x85")
    path.write_bytes(("\ufeff" + LINE + "\r\n\r\n" + second).encode())
    assert [(item.item_id, item.input_text) for item in read_items(path)] == [
        ("a", "one"),
        ("b", "t\u2028wo\x85"),
    ]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"item_id": "b", "inp', "line 2: not valid JSON (Unterminated string"),
        ("[1]", "line 2: expected a JSON object, found list"),
        ('{"item_id": "b", "truth": {}}', "line 2: key 'input_text' is missing (the row has item_id, truth)"),
        ('{"item_id": 5, "input_text": "", "truth": {}}', "line 2: 'item_id' should be a string, found int"),
        ('{"item_id": "", "input_text": "", "truth": {}}', "line 2: 'item_id' is empty"),
        (
            '{"item_id": "b", "input_text": "", "truth": "x"}',
            "line 2: 'truth' should be an object, found str",
        ),
        (LINE, "line 2: item_id 'a' was already used (line 1)"),
        (
            '{"item_id": "b", "input_text": "", "truth": {}, "cluster": ["x"]}',
            "line 2: 'cluster' should be a string or a number, found list",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path, second, message):
    path = tmp_path / "x.jsonl"
    path.write_text(f"{LINE}\n{second}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_items(path)
    assert f"{path} {message}" in str(caught.value)


def test_items_of_one_input_are_one_cluster_unless_one_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = [
        {"item_id": "a", "input_text": "Where is  Oslo?", "truth": {"answer": "1"}},
        {"item_id": "b", "input_text": "where is oslo? ", "truth": {"answer": "2"}},
        {"item_id": "c", "input_text": "Where is Oslo?", "truth": {}, "columns": {"tone": "curt"}},
        {"item_id": "d", "input_text": "Where is Oslo?", "truth": {}, "cluster": 0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    a, b, c, d = read_items(path)
    assert a.cluster == b.cluster
    assert len({a.cluster, c.cluster, d.cluster}) == 3
    assert d.cluster == "0"
    # Only what was named is written again, and the content that rows' ids are made of never has it.
    assert [item.line().get("cluster") for item in (a, c, d)] == [None, None, "0"]
    assert d.content() == ["Where is Oslo?", {}]


def test_an_empty_file_is_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no items"):
        read_items(tmp_path / "x.jsonl")


@given(st.text())
def test_any_text_is_an_object_or_a_data_error(text):
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert Row.parse(text, "x line 1").values == expected
    else:
        with pytest.raises(DataError, match=r"^x line 1: "):
            Row.parse(text, "x line 1")


def test_deep_nesting_is_a_data_error():
    with pytest.raises(DataError):
        Row.parse('{"a":' * 200_000, "x line 1")


@pytest.mark.slow
@given(st.dictionaries(st.text(), st.text(alphabet=st.characters())))
def test_written_lines_read_back(value):
    line = dump_line(value)
    assert line.encode("utf-8").count(b"\n") == 1
    assert json.loads(line) == value


def test_lone_surrogates_are_escaped():
    assert dump_line({"a": "\ud800"}) == '{"a": "\\ud800"}\n'


ITEMS = [Item(f"i{n}", f"text {n}", {}) for n in range(50)]


def test_rank_is_the_sha256_of_the_joined_names():
    def rank(item: Item) -> str:
        return hashlib.sha256(f"pcsuite-v1|1337|gsm8k|{item.item_id}".encode()).hexdigest()

    assert sample_items(ITEMS, 50, 1337, "gsm8k", "pcsuite-v1") == sorted(ITEMS, key=rank)


@given(st.integers(0, 50), st.integers(0, 50), st.randoms(use_true_random=False))
def test_samples_are_nested_and_independent_of_order(small: int, large: int, rng: random.Random):
    small, large = sorted((small, large))
    shuffled = list(ITEMS)
    rng.shuffle(shuffled)
    chosen = sample_items(shuffled, large, 7, "t")
    assert len(chosen) == large
    assert sample_items(ITEMS, small, 7, "t") == chosen[:small]


def test_seed_task_and_hash_seed_all_matter():
    base = sample_items(ITEMS, 10, 1, "t", "h")
    assert base != sample_items(ITEMS, 10, 2, "t", "h")
    assert base != sample_items(ITEMS, 10, 1, "u", "h")
    assert base != sample_items(ITEMS, 10, 1, "t", "g")


def test_all_items_and_impossible_numbers():
    assert len(sample_items(ITEMS, None, 1, "t")) == 50
    assert len(sample_items(ITEMS, 99, 1, "t")) == 50
    with pytest.raises(DataError, match="cannot sample -1 items of task 't'"):
        sample_items(ITEMS, -1, 1, "t")


def test_exemplars_are_fixed_and_nested():
    four = exemplars(ITEMS, 4)
    assert exemplars(reversed(ITEMS), 2) == four[:2]
    assert exemplars(ITEMS, 0) == []
    with pytest.raises(DataError, match="51 exemplars asked for, but the training split has 50 items"):
        exemplars(ITEMS, 51)


@given(st.integers(0, 50))
def test_split_off_parts_items_and_keeps_their_order(n: int):
    part, rest = split_off(ITEMS, n, "dev", 1337)
    assert len(part) == n
    assert sorted(part + rest, key=ITEMS.index) == ITEMS
    assert part == sorted(part, key=ITEMS.index)
    assert rest == sorted(rest, key=ITEMS.index)


def test_equal_inputs_fall_on_one_side():
    doubled = [Item(f"d{n}", ("Text" if n < 40 else "text  ") + f" {n % 40}", {}) for n in range(80)]
    part, rest = split_off(doubled, 20, "dev", 1)
    normal = [{" ".join(item.input_text.lower().split()) for item in side} for side in (part, rest)]
    assert len(part) == 20
    assert not normal[0] & normal[1]


def test_a_group_that_does_not_fit_is_left_out():
    pairs = [Item(f"p{n}", str(n % 2), {}) for n in range(4)]
    assert len(split_off(pairs, 3, "dev", 1)[0]) == 2


def choice(label, **truth):
    return Item("i", "q", {"choice": label, **truth})


def test_closed_answers_are_labels_and_options_and_one_for_anything_else():
    assert closed_answers([choice("A", choices={"A": "x", "B": "y", "C": "z"})]) == 4
    assert closed_answers([Item("i", "q", {"label": "yes"}), Item("j", "q", {"label": "no"})]) == 3
    assert closed_answers([choice("A")]) is None  # one label is no choice
    assert closed_answers([choice(str(number)) for number in range(13)]) is None  # as good as open
    assert closed_answers([Item("i", "q", {"answer": "42"})]) is None
