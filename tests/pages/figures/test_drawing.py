from pcsuite.pages.figures import drawing
from pcsuite.pages.figures.drawing import draw_points, file_slug, short, short_all
from pcsuite.pages.figures.svg import Tips


def test_names_fit_into_files_and_figures():
    assert file_slug("a/b c≥d") == "a-b-c-d"
    assert file_slug("///") == "unnamed"
    assert short("x" * 30 + "0.5b", 12) == "x" * 7 + "…0.5b"


def test_names_side_by_side_are_told_apart():
    tail = "_that_goes_on_and_on_and_on"
    assert short_all(["prompt_variant_a" + tail, "prompt_variant_b" + tail], 16) == [
        "…a_that_goes_on…",
        "…b_that_goes_on…",
    ]
    assert short_all(["C0", "C1"], 16) == ["C0", "C1"]
    # what differs lies beyond what can be shown
    far = ["x" * 40 + "1" + "y" * 40, "x" * 40 + "2" + "y" * 40]
    first, second = short_all(far, 16)
    assert first != second
    assert max(map(len, (first, second))) <= 16


def row_of(value, low, high):
    return {"cost": value, "cost_low": low, "cost_high": high}


def test_tooltips_say_value_interval_and_items_and_undefined_points_are_left_out():
    tips = Tips()
    rows = [
        row_of(0.5, 0.4, 0.6) | {"cost_n": 1234, "url": "/c0"},
        row_of(None, None, None),
        row_of(-0.001, None, None),
    ]
    with drawing.style():
        _, axes = drawing.blank()
        draw_points(axes, tips, [0, 1, 2], rows, "cost", ["C0", "C1", "C2"], name="m", index=9)
        interval, points = axes.lines
    assert [interval.get_gid(), points.get_gid()] == list(tips.parts)
    assert tips.parts[points.get_gid()].marks == (
        ("C0: 0.50 [0.40, 0.60] on 1,234 items", "/c0"),
        ("C2: 0.00", None),
    )
    assert points.get_xydata().tolist() == [[0, 0.5], [2, -0.001]]
    assert interval.get_ydata()[:2].tolist() == [0.4, 0.6]
    assert points.get_label() == "m"
    # the tenth series has the colour and the marker of the second
    assert (points.get_color(), points.get_marker()) == ("#d9772b", "s")


def test_control_characters_of_names_are_written_out():
    assert short("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"


def test_an_interval_without_end_does_not_ruin_the_axis():
    with drawing.style():
        _, axes = drawing.blank()
        rows = [row_of(1000.0, 590.0, 40_248_541_197.0), row_of(700.0, 500.0, 900.0)]
        draw_points(axes, Tips(), [0, 1], rows, "cost", ["C0", "C1"], name="m")
        drawing.plain_log_scale(axes)
        drawing.keep_to_points(axes, [row["cost"] for row in rows])
        low, high = axes.get_ylim()
    assert high == 10_000
    assert 70 <= low < 500


def test_intervals_that_fit_are_shown_whole():
    with drawing.style():
        _, axes = drawing.blank()
        draw_points(axes, Tips(), [0], [row_of(700.0, 500.0, 900.0)], "cost", ["C1"], name="m")
        drawing.plain_log_scale(axes)
        before = axes.get_ylim()
        drawing.keep_to_points(axes, [700.0])
        assert axes.get_ylim() == before
