"""Panels: ticks, grid and names stand where matplotlib's own would, and limits, rotation and sharing are obeyed."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from pcsuite.pages.figures import drawing
from pcsuite.pages.palette import LINE


def names_of(svg: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)]


def test_ticks_have_the_places_and_names_of_matplotlibs_own():
    with drawing.style():
        figure, axes = drawing.blank()
        axes.plot([0, 7], [0.0, 0.31])
        axes.set(xlabel="tokens", ylabel="score")
        wanted = Figure(figsize=(7.2, 3.4)).subplots()
        wanted.plot([0, 7], [0.0, 0.31])
        for own, theirs in ((axes.xaxis, wanted.xaxis), (axes.yaxis, wanted.yaxis)):
            low, high = sorted(theirs.get_view_interval())
            shown = [label.get_text() for label in theirs.get_ticklabels()]
            inside = [
                (place, name)
                for place, name in zip(theirs.get_majorticklocs(), shown, strict=True)
                if low <= place <= high
            ]
            ticks = list(own._ticks())
            assert [name for _, name in ticks] == [name for _, name in inside]
            along = [axes.transData.transform((place, place))[own.along] for place, _ in inside]
            assert [pixel for pixel, _ in ticks] == pytest.approx(along)
        svg = drawing.paint(figure).svg()
    assert {"tokens", "score", "0.30"} <= set(names_of(svg))


def test_the_inner_panels_of_a_shared_axis_have_no_names():
    with drawing.style():
        figure, (upper, lower) = drawing.blank(rows=2, sharex=True)
        for axes in (upper, lower):
            drawing.name_ticks(axes, ["C0", "C3"])
            axes.plot([0, 1], [0, 1])
        assert [text.get_text() for text in upper.xaxis._names()] == []
        names = names_of(drawing.paint(figure).svg())
    assert names.count("C0") == names.count("C3") == 1


def test_long_names_are_slanted_and_short_ones_are_not():
    angles = {}
    for length, count in ((2, 5), (30, 5), (30, 40)):
        with drawing.style():
            _, axes = drawing.blank()
            drawing.name_ticks(axes, ["x" * length] * count)
            angles[length, count] = {text.get_rotation() for text in axes.xaxis._names()}
    assert angles == {(2, 5): {0.0}, (30, 5): {35.0}, (30, 40): {65.0}}


def test_a_grid_is_drawn_across_the_panel_unless_it_is_off():
    def rows_with_grid(shown: bool) -> int:
        with drawing.style():
            figure, axes = drawing.blank()
            axes.set_ylim(0, 1)
            axes.grid(shown)
            picture = np.asarray(drawing.paint(figure).bitmap.buffer_rgba())[:, :, :3].astype(int)
        line = np.array([int(LINE[k : k + 2], 16) for k in (1, 3, 5)])
        return int(((np.abs(picture - line).max(axis=2) < 12).mean(axis=1) > 0.5).sum())

    assert rows_with_grid(True) >= 4
    assert rows_with_grid(False) == 0


def test_names_beyond_the_limits_are_left_out():
    with drawing.style():
        _, axes = drawing.blank()
        drawing.name_ticks(axes, ["a", "b", "c"])
        axes.set_xlim(-0.5, 1.5)
        assert [text.get_text() for text in axes.xaxis._names()] == ["a", "b"]


def test_an_axis_that_is_off_shows_nothing():
    with drawing.style():
        figure, axes = drawing.blank()
        axes.set_axis_off()
        axes.text(0.5, 0.5, "alone")
        assert names_of(drawing.paint(figure).svg()) == ["alone"]
