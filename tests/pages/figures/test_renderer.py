"""One drawing for two files: what is in the SVG is in the bitmap, at the same place."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from pcsuite.errors import AnalysisError
from pcsuite.pages.figures import drawing
from pcsuite.pages.figures.renderer import BITMAP_DPI, SVG_DPI


def pixels(painted):
    return np.asarray(painted.bitmap.buffer_rgba())[:, :, :3].astype(int)


def is_red(picture):
    return (picture[:, :, 0] > 200) & (picture[:, :, 1:] < 80).all(axis=2)


def test_a_mark_lies_in_the_bitmap_where_it_lies_in_the_svg():
    with drawing.style():
        figure, axes = drawing.blank()
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="across", title="A title")
        axes.plot([0.25], [0.75], marker="o", color="#ff0000", markersize=12, linestyle="none", gid="mark")
        painted = drawing.paint(figure)
        x, y = axes.transData.transform((0.25, 0.75))
    scale = BITMAP_DPI / SVG_DPI
    picture = pixels(painted)
    assert picture.shape[:2] == (round(3.4 * BITMAP_DPI), round(7.2 * BITMAP_DPI))
    rows, columns = np.nonzero(is_red(picture))
    assert columns.mean() == pytest.approx(x * scale, abs=1)
    assert picture.shape[0] - rows.mean() == pytest.approx(y * scale, abs=1)
    # a marker of twelve points, at the bitmap's resolution
    assert columns.max() - columns.min() == pytest.approx(12 * scale, abs=2.5)
    svg = painted.svg()
    assert 'id="mark"' in svg
    assert "A title" in svg


def test_nothing_drawn_is_white_in_the_bitmap_and_nothing_in_the_svg():
    with drawing.style():
        figure, axes = drawing.blank()
        axes.set_axis_off()
        painted = drawing.paint(figure)
    assert (pixels(painted) == 255).all()
    assert "#ffffff" not in painted.svg()


def test_clips_and_images_reach_the_bitmap():
    with drawing.style():
        figure, axes = drawing.blank()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.plot([-5, 5], [0.5, 0.5], color="#ff0000", linewidth=6)  # far beyond both ends of the panel
        axes.imshow([[[0.0, 0.0, 1.0]]], extent=(0.6, 0.9, 0.1, 0.3), aspect="auto", interpolation="nearest")
        painted = drawing.paint(figure)
        box = axes.bbox
        (left, low), (right, high) = axes.transData.transform([(0.6, 0.1), (0.9, 0.3)])
    scale, picture = BITMAP_DPI / SVG_DPI, pixels(painted)
    columns = np.nonzero(is_red(picture))[1]
    assert columns.min() == pytest.approx(box.x0 * scale, abs=2)
    assert columns.max() == pytest.approx(box.x1 * scale, abs=2)
    blue = (picture[:, :, 2] > 200) & (picture[:, :, :2] < 60).all(axis=2)
    assert blue.sum() == pytest.approx((right - left) * (high - low) * scale**2, rel=0.05)
    assert "<image" in painted.svg()


def test_panels_leave_room_for_their_labels_and_legends():
    with drawing.style():
        figure, grid = drawing.blank(rows=2, columns=2, height=4.0)
        for index, axes in enumerate(grid.flat):
            axes.plot([0, 1], [0, 1000 * index], label=f"series {index}")
            axes.set(ylabel="a label\nof two lines", xlabel="condition", title="a title")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center")
        renderer = drawing.paint(figure)
        boxes = [axes.get_tightbbox(renderer) for axes in grid.flat]
        below = figure.legends[0].get_window_extent(renderer)
    for index, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= 7.2 * SVG_DPI + 1
        assert box.y1 <= 4.0 * SVG_DPI + 1
        assert box.y0 >= below.y1 - 1
        for other in boxes[index + 1 :]:
            assert not box.padded(-1).overlaps(other.padded(-1))
    widths = {round(axes.bbox.width, 3) for axes in grid.flat}
    assert len(widths) == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with drawing.style():
        figure, axes = drawing.blank()
        axes.plot([0, 1], [0, 1])
        painted = drawing.paint(figure)
    (tmp_path / "blocked").write_text("no folder")
    with pytest.raises(AnalysisError, match="blocked"):
        painted.write_png(tmp_path / "blocked" / "figure.png")


def test_panels_outside_the_grid_are_refused():
    with drawing.style():
        figure, _ = drawing.blank()
        figure.add_axes((0.5, 0.5, 0.2, 0.2))
        with pytest.raises(NotImplementedError, match="one grid"):
            drawing.paint(figure)
