"""The reference pages say what the declarations say."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_table_docs.py"


def test_the_reference_page_is_made_from_the_specs():
    made = runpy.run_path(str(SCRIPT))
    page = made["PAGE"].read_text(encoding="utf-8")
    assert page == made["tables_page"](made["SPECS"]), "run python scripts/make_table_docs.py"
    assert "| `drop` … `drop_high` | clean less worst, on the same items |" in page


def test_tables_of_other_pages_are_made_from_their_declarations():
    hypotheses, errors, limits, providers, exchanges = derived = runpy.run_path(str(SCRIPT))["DERIVED"]
    for one in derived:
        assert one.page.read_text(encoding="utf-8") == one.renewed(), "run python scripts/make_table_docs.py"
    assert "\n| H3L | the loop alone, without search (REVISE_LOOP), lowers" in hypotheses.renewed()
    assert "same at every model size (within ±`analysis.scale_bound`) |" in hypotheses.renewed()
    assert "| `hallucination` | none | a value | a false positive |\n" in errors.renewed()
    assert "closed objects, all properties required, an object at the top | refused |" in limits.renewed()
    assert (
        "| `lmstudio` | `http://127.0.0.1:1234/v1` | `LMSTUDIO_BASE_URL` | none | seed, JSON schema |\n"
        in (providers.renewed())
    )
    assert (
        "\n| `lmstudio`, chat | 3 | 2 | Fields and errors as LM Studio's documents show them"
        in exchanges.renewed()
    )
