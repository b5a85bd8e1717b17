from pcsuite.report import drawing
from pcsuite.report.drawing import Tips, canvas, errorbar, file_slug, finish, short, short_all


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


def test_a_figure_carries_its_tooltips_and_takes_the_pages_ink(tmp_path):
    tips = Tips()
    with canvas() as (figure, axes):
        points = [(0.5, 0.4, 0.6), (None, None, None), (-0.001, -0.2, 1234.5)]
        errorbar(axes, tips, [0, 1, 2], points, ["C0 <b>", "C1", "C2"], colour="#2b7bba")
        made = finish(figure, tips, "stem", "kind", 'a "caption"', tmp_path, "my task", None, tail="grid")
    assert (made.name, made.png) == ("stem__my-task__grid", tmp_path / "stem__my-task__grid.png")
    assert made.png.read_bytes().startswith(b"\x89PNG")
    assert "<title>C0 &lt;b&gt;: 0.50 [0.40, 0.60]</title>" in made.svg
    assert "<title>C2: 0.00 [-0.20, 1,234]</title>" in made.svg
    assert "C1" not in made.svg
    assert 'aria-label="a &quot;caption&quot;"' in made.svg
    assert "currentColor" in made.svg
    assert "<?xml" not in made.svg


def test_without_a_folder_nothing_is_written(tmp_path):
    with canvas() as (figure, _):
        made = finish(figure, Tips(), "stem", "kind", "", None, "t", "m")
    assert (made.name, made.png) == ("stem__t__m", None)
    assert list(tmp_path.iterdir()) == []


def test_an_interval_without_end_does_not_ruin_the_axis():
    with drawing.canvas() as (_, axes):
        tips = drawing.Tips()
        points = [(1000.0, 590.0, 40_248_541_197.0), (700.0, 500.0, 900.0)]
        drawing.errorbar(axes, tips, [0, 1], points, ["C0", "C1"], colour="black")
        drawing.plain_log_scale(axes)
        drawing.keep_to_points(axes, [value for value, _, _ in points])
        low, high = axes.get_ylim()
    assert high == 10_000
    assert 70 <= low < 500


def test_intervals_that_fit_are_shown_whole():
    with drawing.canvas() as (_, axes):
        drawing.errorbar(axes, drawing.Tips(), [0], [(700.0, 500.0, 900.0)], ["C1"], colour="black")
        drawing.plain_log_scale(axes)
        before = axes.get_ylim()
        drawing.keep_to_points(axes, [700.0])
        assert axes.get_ylim() == before
