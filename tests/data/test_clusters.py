"""Which items are related: by equal inputs, by columns, and not by what only numbers the rows."""

import itertools

import pytest

from pcsuite.data.clusters import (
    cluster_sentence,
    clustered,
    count_clusters,
    input_cluster,
    items_in_clusters,
    joined_labels,
    numbers_rows,
)
from pcsuite.data.items import Item, sample_items, split_off
from pcsuite.errors import DataError


def items_of(*texts, **columns):
    return [
        Item(f"i{n:03d}", text, {}, attributes={name: values[n] for name, values in columns.items()})
        for n, text in enumerate(texts)
    ]


def test_columns_make_clusters_and_equal_inputs_stay_together_whatever_they_say():
    items = items_of("a", "b", "A ", "c", "d", customer=["ann", "Bob", "bob ", "cy", ""])
    by_customer = [item.cluster for item in clustered(items, ["customer"], "table")]
    # The first and the third ask the same, so Ann's and Bob's items are one cluster; the last has no customer.
    assert by_customer[0] == by_customer[1] == by_customer[2] == "ann + bob"
    assert by_customer[3] == "cy"
    assert by_customer[4] == items[4].cluster
    assert count_clusters(clustered(items, ["customer"], "table")) == 3


def test_a_column_of_row_numbers_parts_no_copies():
    items = items_of("same", "same", "other", row=["1", "2", "3"])
    assert count_clusters(clustered(items, ["row"], "table")) == 2


def test_several_columns_are_one_label():
    items = items_of("a", "b", "c", customer=["ann", "ann", "bob"], month=["may", "june", "may"])
    assert [item.cluster for item in clustered(items, ["customer", "month"], "t")] == [
        "ann · may",
        "ann · june",
        "bob · may",
    ]


def test_a_key_of_the_truth_and_a_column_that_a_prompt_shows_can_cluster_too():
    items = [Item(str(n), f"q{n}", {"db_id": "d1"}, columns={"page": "p"}) for n in range(2)]
    assert (
        count_clusters(clustered(items, ["db_id"], "t"))
        == count_clusters(clustered(items, ["page"], "t"))
        == 1
    )


def test_an_unknown_column_is_one_line():
    with pytest.raises(DataError, match=r"table: no column 'custmer' .*did you mean 'customer'"):
        clustered(items_of("a", "b", customer=["x", "y"]), ["custmer"], "table")
    with pytest.raises(DataError, match="keep no column"):
        clustered(items_of("a", "b"), ["customer"], "table")


def test_joined_labels_follow_chains_and_bound_their_length():
    assert joined_labels(["1", "2", "3"], ["", "", ""]) == ["1", "2", "3"]
    chain = joined_labels(["1", "1", "2", "3"], ["a", "b", "b", "c"])
    assert chain == ["a + b", "a + b", "a + b", "c"]
    (long,) = set(joined_labels(["x"] * 50, [f"customer {n}" for n in range(50)]))
    assert len(long) < 80


@pytest.mark.parametrize(
    ("name", "values", "numbering"),
    [
        ("id", ["7", "3", "9"], True),
        ("ticketId", ["a7", "b3", "c9"], True),
        ("order_no", ["17", "4", "9"], True),
        ("n", ["1", "2", "3"], True),
        ("code", ["T-001", "T-002", "T-003"], True),
        ("when", ["2026-01-01T10:00:00Z", "2026-01-01T10:00:01Z"], True),
        ("x", ["0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"], True),
        ("a", ["3", "1", "4"], False),  # a number of the task's own
        ("text", ["one thing", "another thing"], False),
        ("id", ["1", "1", "2"], False),  # it repeats: a customer's, say
        ("word", ["no", "yes"], False),
        ("period", ["may", "june"], False),
    ],
)
def test_columns_that_only_number_the_rows(name, values, numbering):
    assert numbers_rows(name, values) is numbering


def test_what_is_said_of_clusters():
    copies = items_of(*["a", "b"] * 6, *["c", "d", "e", "f"] * 6)
    assert items_in_clusters(copies) == "36 items in 6 clusters"
    assert cluster_sentence(copies) == (
        "6 texts stand 6 times each: 36 items in 6 clusters; copies are no further evidence,"
        " splits, limits and verdicts go by cluster"
    )
    one = items_of("a", "a", *map(str, range(8)))
    assert cluster_sentence(one, ignored=["id"]).startswith(
        "1 text stands more than once (id left aside): 10 items in 9"
    )
    few = clustered(items_of("a", "b", "c", who=["x", "x", "y"]), ["who"], "t")
    assert cluster_sentence(few, ["who"]) == (
        "3 items in 2 clusters by who: splits, limits and verdicts go by cluster; not tested: 2 clusters, at least 6"
        " are needed"
    )
    assert cluster_sentence(items_of("a", "b")) == ""


def test_ignored_columns_are_no_part_of_an_inputs_cluster():
    first, second = ({"id": n, "text": "same"} for n in ("1", "2"))
    assert input_cluster("", first) != input_cluster("", second)
    assert input_cluster("", first, ignored=["id"]) == input_cluster("", second, ignored=["id"])


def test_a_sample_is_the_same_whatever_is_related_and_keeps_clusters_together():
    items = [Item(f"i{n:03d}", f"text {n}", {}) for n in range(40)]
    related = [Item(f"i{n:03d}", f"text {n}", {}, cluster=f"c{n % 6}") for n in range(40)]
    for n in (5, 20, None):
        plain, together = sample_items(items, n, 1337, "t"), sample_items(related, n, 1337, "t")
        assert {item.item_id for item in plain} == {item.item_id for item in together}
        labels = [item.cluster for item in together]
        borders = sum(before != after for before, after in itertools.pairwise(labels))
        assert borders == len(set(labels)) - 1, "each cluster stands in one place"
    assert {i.item_id for i in sample_items(related, 5, 1337, "t")} < {
        i.item_id for i in sample_items(related, 20, 1337, "t")
    }


def test_a_split_parts_no_cluster():
    related = [Item(f"i{n:03d}", f"text {n}", {}, cluster=f"c{n % 5}") for n in range(40)]
    part, rest = split_off(related, 16, "dev", 1)
    assert (len(part), len(rest)) == (16, 24)
    assert not {item.cluster for item in part} & {item.cluster for item in rest}
