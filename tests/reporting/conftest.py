import pytest

from pcsuite.reporting.build import build_report
from support.synthetic_log import Design, design_rows, make_row, write_log

HOSTILE = "<script>alert(1)</script> | [x](javascript:alert(1)) `=1+1` *b* _i_ &amp;\n# h"
HOSTILE_TO_TEX = (
    "[50% a_b & #1 $x$ {y} ~^ \\input{/etc/passwd} ≥ ≤ × – — é ß ç ĳ ñ ā ệ → 汉字 😀 \" ' ` -- α Ω Σ ± … „x“ \u200b"
    " e\u0301 ½ ∞ \x07 ≻"
)


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    rows = list(design_rows(Design(items=12, conditions=("C0", "C4", "C6"))))
    rows.append(make_row(item="zz", model=HOSTILE, text=HOSTILE))
    names = {
        "task": HOSTILE_TO_TEX,
        "model": "$\\frac 汉" + HOSTILE_TO_TEX,
        "decoding": "d_%",
        "text": HOSTILE_TO_TEX,
    }
    for condition in ("C0", "C4", "C≥6_%&#"):
        rows += [make_row(item=f"{k}", condition=condition, score=float(k % 2), **names) for k in range(4)]
    log = write_log(folder / "runs" / "a.jsonl", rows)
    return build_report([log], folder, formats=("md", "latex"))
