"""A figure drawn once for two files: the SVG of the page and the bitmap for papers.

Half of a figure's time goes to working out where ticks, labels and marks lie, and matplotlib does so again for each
format. Imported only where a figure is drawn: matplotlib is an extra.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.backends.backend_agg import RendererAgg, get_hinting_flag
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.path import Path as Shape
from matplotlib.transforms import Affine2D, TransformedBbox, TransformedPath
from PIL import Image

from pcsuite._util.files import write_errors
from pcsuite.errors import AnalysisError

SVG_DPI = 72
"""SVG counts in points."""
BITMAP_DPI = 160
_NO_METADATA = {"Date": None, "Creator": None}
_CACHED_TEXTS = 4096
_TextBitmap = tuple[Any, float, float]


class DualRenderer(RendererSVG):  # type: ignore[misc]
    """Writes the SVG, and passes what is drawn on to :attr:`bitmap`, which has a higher resolution and may be left out.

    Lines and fonts follow the resolution of the bitmap by themselves; places, marks and clips are scaled here. The
    bitmap is white where nothing is drawn, the SVG transparent.
    """

    _words: ClassVar[dict[tuple[str, int], _TextBitmap]] = {}
    _sizes: ClassVar[dict[tuple[str, int], tuple[float, float, float]]] = {}

    def __init__(self, width: float, height: float, *, bitmap: bool = True) -> None:
        """``width`` and ``height`` are in points."""
        self._text = io.StringIO()
        super().__init__(width, height, self._text, image_dpi=BITMAP_DPI, metadata=_NO_METADATA)
        self._scale = BITMAP_DPI / SVG_DPI
        self._larger = Affine2D().scale(self._scale)
        self.bitmap: Any = None
        if not bitmap:
            return
        self.bitmap = RendererAgg(round(width * self._scale), round(height * self._scale), BITMAP_DPI)
        page, plain = Affine2D().scale(self.bitmap.width, self.bitmap.height), self.bitmap.new_gc()
        plain.set_linewidth(0)
        self.bitmap.draw_path(plain, Shape.unit_rectangle(), page, (1.0, 1.0, 1.0, 1.0))

    def svg(self) -> str:
        """The finished SVG; nothing can be drawn after it."""
        self.finalize()
        return self._text.getvalue()

    def write_png(self, path: Path) -> None:
        """Write the bitmap, its folder made; raises :class:`AnalysisError` where it cannot be written."""
        size = (int(self.bitmap.width), int(self.bitmap.height))
        image = Image.frombuffer("RGBA", size, self.bitmap.buffer_rgba(), "raw", "RGBA", 0, 1)
        with write_errors(AnalysisError, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            image.convert("RGB").save(path, format="png", dpi=(BITMAP_DPI, BITMAP_DPI), compress_level=3)

    def draw_path(self, gc: Any, path: Any, transform: Any, rgbFace: Any = None) -> None:
        super().draw_path(gc, path, transform, rgbFace)
        if self.bitmap is not None:
            self.bitmap.draw_path(self._scaled(gc), path, transform + self._larger, rgbFace)

    def draw_markers(
        self, gc: Any, marker_path: Any, marker_trans: Any, path: Any, trans: Any, rgbFace: Any = None
    ) -> None:
        super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
        if self.bitmap is not None:
            larger = (marker_path, marker_trans + self._larger, path, trans + self._larger)
            self.bitmap.draw_markers(self._scaled(gc), *larger, rgbFace)

    def draw_path_collection(self, *args: Any, **options: Any) -> None:
        # The way of every renderer, path by path: SVG's own shorthand would not reach the bitmap.
        super(RendererSVG, self).draw_path_collection(*args, **options)

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
        if self.bitmap is None:
            return
        picture, left, down = self._text_bitmap(s, prop)
        turn = math.radians(angle)
        right = round(x * self._scale + left + down * math.sin(turn))
        below = round(y * self._scale + down * math.cos(turn))
        self.bitmap._renderer.draw_text_image(picture, right, below + 1, angle, self._scaled(gc))

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:
        """Width, height and descent of a text in points; cached, where matplotlib measures anew in each figure."""
        key = (s, hash(prop))
        if key not in self._sizes:
            if len(self._sizes) >= _CACHED_TEXTS:
                self._sizes.clear()
            self._sizes[key] = super().get_text_width_height_descent(s, prop, ismath)
        return self._sizes[key]

    def _text_bitmap(self, words: str, prop: Any) -> _TextBitmap:
        """Words as a bitmap, how far it begins to the right, and how far it reaches below the line, in pixels.

        Figures repeat their words (conditions, ticks, models), and matplotlib would render each letter anew.
        """
        key = (words, hash(prop))
        if key not in self._words:
            if len(self._words) >= _CACHED_TEXTS:
                self._words.clear()
            font = self.bitmap._prepare_font(prop)
            font.set_text(words, 0, flags=get_hinting_flag())
            font.draw_glyphs_to_bitmap(antialiased=True)
            left, lower = font.get_bitmap_offset()
            self._words[key] = font.get_image(), left / 64, (font.get_descent() + lower) / 64
        return self._words[key]

    def draw_image(self, gc: Any, x: float, y: float, im: Any, transform: Any = None) -> None:
        # ``image_dpi`` has matplotlib resample images for the bitmap; the SVG shows them smaller.
        super().draw_image(gc, x, y, im, transform)
        if self.bitmap is not None:
            self.bitmap.draw_image(self._scaled(gc), x * self._scale, y * self._scale, im)

    def draw_gouraud_triangles(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError("shaded triangles are drawn by no figure of the suite")

    def _scaled(self, gc: Any) -> Any:
        """A graphics context for the bitmap: the same, its clips scaled."""
        scaled = self.bitmap.new_gc()
        scaled.copy_properties(gc)
        box = gc.get_clip_rectangle()
        if box is not None:
            scaled.set_clip_rectangle(TransformedBbox(box, self._larger).frozen())
        shape, transform = gc.get_clip_path()
        if shape is not None:
            scaled.set_clip_path(TransformedPath(shape, transform + self._larger))
        return scaled
