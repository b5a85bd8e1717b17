"""When an effect is one of the form of the answers."""

import pytest

from pcsuite.contrasts import ReadEffect, is_form


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
