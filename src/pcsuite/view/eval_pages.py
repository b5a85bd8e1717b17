"""The pages of the verifier's evals: all of them by field, and one with the items that are wrong.

They are about a folder of extraction records, not about a run: nothing of a log is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pcsuite.errors import ConfigError
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.evals import ScoredEval, find_evals, folder_mapping, score_evals, scored_units
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.report import EvalRow, error_cards, heat_map
from pcsuite.verifier.results import Document, results_document
from pcsuite.verifier.scores import pool_evals
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request


def evals_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """Evals by field, the worst first."""
    scored, documents = _scored_evals(viewer)
    rows = [
        EvalRow(document, one.scored.comparison.by_field, address=f"/evals/{quote(one.eval.eval_id)}")
        for one, document in zip(scored, documents, strict=True)
    ]
    drawn = heat_map(rows)
    pooled = pool_evals(scored_units(scored))
    return "evals.html.j2", {
        "columns": drawn["columns"],
        "heat": drawn["heat"],
        "pooled": pooled,
        "folder": str(viewer.evals),
    }


def eval_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """The items of one eval that are wrong."""
    name = request.path_params["name"]
    evals = {one.eval.eval_id: (one, document) for one, document in zip(*_scored_evals(viewer), strict=True)}
    if name not in evals:
        raise ConfigError(f"there is no eval '{name}' in {viewer.evals}")
    one, document = evals[name]
    section = request.query_params.get("section", "")
    cards = error_cards(document, one.scored.comparison)
    return "eval.html.j2", {
        "one": document,
        "cards": [card for card in cards if section in ("", card["section"])],
        "kinds": list(ERROR_TYPES.values()),
        "section": section,
    }


def _scored_evals(viewer: Viewer) -> tuple[list[ScoredEval], list[Document]]:
    """The evals of the folder, scored as they lie there, and their results."""
    if viewer.evals is None:
        raise ConfigError("no evals were named", hint="pcsuite view --evals DIR")
    scored = score_evals(find_evals(viewer.evals), load_mapping(folder_mapping(viewer.evals)))
    return scored, [results_document(one.scored, one.rules, one.eval.eval_id, None, None) for one in scored]
