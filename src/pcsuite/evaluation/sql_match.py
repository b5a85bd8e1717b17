"""Whether two query results are the same: any order of columns, and any order of rows unless the gold query orders.

The rule of test-suite accuracy (Zhong, Yu & Klein 2020), which the field calls execution accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pcsuite.evaluation.sql_process import Row, Value

_MOST_STEPS = 20_000


def same_result(gold: Sequence[Row], answer: Sequence[Row], *, ordered: bool) -> bool:
    """Whether some permutation of the given columns makes the results equal.

    Rows are compared in their order where ``ordered``, else as a multiset; two empty results are equal, whatever their
    columns. Values are equal as in Python, so 4 is 4.0; text is no number.

    >>> same_result([("dog", 12.5), ("cat", 4)], [(4, "cat"), (12.5, "dog")], ordered=False)
    True
    >>> same_result([(1,), (2,)], [(2,), (1,)], ordered=True)
    False
    """
    if naive_match(gold, answer, ordered=ordered):
        return True
    if len(gold) != len(answer) or not gold or len(gold[0]) != len(answer[0]) or len(gold[0]) == 1:
        return False
    gold_columns, given_columns = list(zip(*gold, strict=True)), list(zip(*answer, strict=True))
    if ordered:
        # With the rows fixed a permutation exists exactly where the columns are the same collection.
        return Counter(gold_columns) == Counter(given_columns)
    signatures = [frozenset(Counter(column).items()) for column in given_columns]
    gold_signatures = [frozenset(Counter(column).items()) for column in gold_columns]
    if Counter(signatures) != Counter(gold_signatures):
        return False
    candidates = [
        [index for index, signature in enumerate(signatures) if signature == want] for want in gold_signatures
    ]
    return _permutes(gold_columns, given_columns, candidates)


def naive_match(gold: Sequence[Row], answer: Sequence[Row], *, ordered: bool) -> bool:
    """Whether the results are equal with their columns as they stand."""
    return list(gold) == list(answer) if ordered else Counter(gold) == Counter(answer)


def _permutes(
    gold: Sequence[Sequence[Value]], answer: Sequence[Sequence[Value]], candidates: Sequence[Sequence[int]]
) -> bool:
    """Search column by column, those with the fewest candidates first, giving up a branch as soon as rows differ.

    Bounded: columns that all hold the same few values could take for ever, and no question asks for them.
    """
    order = sorted(range(len(gold)), key=lambda index: len(candidates[index]))
    steps = 0

    def extend(
        depth: int, used: frozenset[int], left: list[tuple[Value, ...]], right: list[tuple[Value, ...]]
    ) -> bool:
        nonlocal steps
        if depth == len(order):
            return True
        column = order[depth]
        grown = [(*row, value) for row, value in zip(left, gold[column], strict=True)]
        gold_rows = Counter(grown)
        tried: list[Sequence[Value]] = []
        for index in candidates[column]:
            if index in used or answer[index] in tried:
                continue
            steps += 1
            if steps > _MOST_STEPS:
                return False
            tried.append(answer[index])
            other = [(*row, value) for row, value in zip(right, answer[index], strict=True)]
            if Counter(other) == gold_rows and extend(depth + 1, used | {index}, grown, other):
                return True
        return False

    empty: list[tuple[Value, ...]] = [() for _ in gold[0]]
    return extend(0, frozenset(), empty, empty)
