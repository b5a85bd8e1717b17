"""The pages of the verifier's evals: all of them by field, and one with the items that are wrong.

They are about a folder of extraction records, not about a run: nothing of a log is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcsuite.errors import ConfigError
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.evals import find_evals, score_evals
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.report import error_cards
from pcsuite.verifier.results import results_document
from pcsuite.verifier.scores import pool_evals
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request


def evals_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """Evals by field, the worst first."""
    return "evals.html.j2", {"found": _scored_evals(viewer), "folder": str(viewer.evals)}


def eval_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """The items of one eval that are wrong."""
    name = request.path_params["name"]
    scored = _scored_evals(viewer)
    document = next((one for one in scored["documents"] if one["eval_id"] == name), None)
    if document is None:
        raise ConfigError(f"there is no eval '{name}' in {viewer.evals}")
    section = request.query_params.get("section", "")
    every = error_cards(document, scored["comparisons"][name])
    cards = [card for card in every if section in ("", card["section"])]
    return "eval.html.j2", {
        "one": document,
        "cards": cards,
        "kinds": list(ERROR_TYPES.values()),
        "section": section,
    }


def _scored_evals(viewer: Viewer) -> dict[str, Any]:
    """The evals of the folder, scored as they lie there: documents, worst first, and F1 of the worst fields."""
    if viewer.evals is None:
        raise ConfigError("no evals were named", hint="pcsuite view --evals DIR")
    scored = score_evals(find_evals(viewer.evals), load_mapping(None))
    documents = [results_document(one.scored, one.rules, one.eval.eval_id, None, None) for one in scored]
    documents.sort(key=lambda document: (document["metrics"]["f1"], document["eval_id"]))
    wrong: dict[str, float] = {}
    for document in documents:
        for name, figures in document["by_field"].items():
            if figures["f1"] < 1:
                wrong[name] = min(figures["f1"], wrong.get(name, 1.0))
    pooled = pool_evals([one.scored.comparison.counts for one in scored])
    return {
        "documents": documents,
        "comparisons": {one.eval.eval_id: one.scored.comparison for one in scored},
        "fields": sorted(wrong, key=lambda name: (wrong[name], name))[:30],
        "pooled": pooled,
    }
