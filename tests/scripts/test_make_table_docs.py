"""The reference pages say what the declarations say."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_table_docs.py"


def test_the_reference_page_is_made_from_the_specs():
    made = runpy.run_path(str(SCRIPT))
    page = made["PAGE"].read_text(encoding="utf-8")
    assert page == made["tables_page"](made["SPECS"]), "run python scripts/make_table_docs.py"
    errors_page = made["ERRORS_PAGE"].read_text(encoding="utf-8")
    assert errors_page == made["with_error_types"](errors_page), "run python scripts/make_table_docs.py"
    assert "| `hallucination` | none | a value | a false positive |" in errors_page
    assert "| `drop` … `drop_high` | clean less worst, on the same items |" in page
