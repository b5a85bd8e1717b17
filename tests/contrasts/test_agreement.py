"""When an effect is one of the form of the answers."""

import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, ReadEffect, is_form, measure


@pytest.mark.parametrize(
    ("strict", "lenient", "form"),
    [
        # In a study: showing the form is +0.51 by the strict rules and -0.03 by the lenient ones.
        (ReadEffect(0.51, True), ReadEffect(-0.03, False), True),
        (ReadEffect(0.51, True), ReadEffect(0.02, False), True),
        (ReadEffect(0.02, False), ReadEffect(0.30, True), True),
        (ReadEffect(0.2, True), ReadEffect(-0.2, True), True),
        (ReadEffect(0.02, False), ReadEffect(-0.01, False), True),
        (ReadEffect(0.2, True), ReadEffect(0.1, True), False),
        # A p-value on either side of the limit at one and the same value: seen in a demo.
        (ReadEffect(0.29, True), ReadEffect(0.29, False), False),
        (ReadEffect(-0.2, True), ReadEffect(-0.3, True), False),
        (ReadEffect(0.02, False), ReadEffect(0.0, False), False),
        (ReadEffect(float("nan"), False), ReadEffect(-0.01, False), False),
        # Both readings show that nothing is lost: about 0 a sign says nothing.
        (ReadEffect(0.002, False, True), ReadEffect(-0.001, False, True), False),
        (ReadEffect(0.002, False, True), ReadEffect(-0.001, False, False), True),
    ],
)
def test_form_is_said_where_signs_differ_or_one_reading_alone_holds(strict, lenient, form):
    assert is_form(strict, lenient) is form
    assert is_form(lenient, strict) is form


def _effects(gains: list[tuple[float, float]], clusters: list[str] | None = None) -> list[ReadEffect]:
    """Of items' gains under the strict and the lenient rules: the first effect as one that holds, the second not."""
    codes = None if clusters is None else np.array(clusters, dtype=object)
    effects = []
    for reading, holds in ((0, True), (1, False)):
        new = np.array([gain[reading] for gain in gains])
        arms = {
            name: ArmScores(values, bounds=(0.0, 1.0), clusters=codes)
            for name, values in (("new", np.maximum(new, 0.0)), ("old", np.maximum(-new, 0.0)))
        }
        (change,) = measure(arms, [Contrast.of("new", "old")], rng=np.random.default_rng(0))
        effects.append(ReadEffect(change.estimate.value, holds, measured=change))
    return effects


@pytest.mark.parametrize(
    ("gains", "form"),
    [
        # 8 of 20 gained either way, two of them other ones: the same effect.
        ([(1, 1)] * 7 + [(1, 0), (0, 1)] + [(0, 0)] * 11, False),
        # 9 of 40 strictly and 8 of them leniently: one item is no difference that is shown.
        ([(1, 1)] * 8 + [(1, 0)] + [(0, 0)] * 31, False),
        # 24 of 60 strictly, 15 of them leniently: nine items are, although the rest is more than half.
        ([(1, 1)] * 15 + [(1, 0)] * 9 + [(0, 0)] * 36, True),
        # 9 of 40 strictly, 4 leniently: less than half is left, whatever chance could add.
        ([(1, 1)] * 4 + [(1, 0)] * 5 + [(0, 0)] * 31, True),
    ],
)
def test_what_holds_under_one_reading_alone_is_form_where_the_readings_are_apart(gains, form):
    strict, lenient = _effects(gains)
    assert is_form(strict, lenient) is form


def test_apart_beyond_chance_is_asked_of_clusters_not_of_items():
    # The items that only the strict rules count: of one customer, or of many.
    gains = [(1.0, 1.0)] * 60 + [(1.0, 0.0)] * 40 + [(0.0, 0.0)] * 140
    one_customer = [f"c{n % 79}" for n in range(60)] + ["a"] * 40 + [f"c{n % 79}" for n in range(140)]
    strict, lenient = _effects(gains, one_customer)
    assert not is_form(strict, lenient)
    strict, lenient = _effects(gains, [f"c{n % 80}" for n in range(240)])
    assert is_form(strict, lenient)


def test_readings_of_other_items_are_apart_wherever_their_values_are():
    strict, _ = _effects([(1, 1)] * 8 + [(0, 0)] * 12)
    _, lenient = _effects([(1, 1)] * 7 + [(0, 0)] * 12)
    assert is_form(strict, lenient)
