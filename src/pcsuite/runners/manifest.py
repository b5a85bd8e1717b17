"""What a run is made of, written beside its log: sources of items, what is not applicable, definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pcsuite import __version__
from pcsuite.analysis.truths import closed_answers
from pcsuite.logging.writer import RunPaths
from pcsuite.prompts.compiled import compiled_path, read_compiled_file
from pcsuite.runners.plan import Plan


def manifest_path(paths: RunPaths) -> Path:
    """``<run>.manifest.json`` beside the log."""
    return paths.log.with_suffix(".manifest.json")


def write_manifest(plan: Plan, paths: RunPaths) -> None:
    """Write the manifest whole or not at all."""
    suite = plan.suite
    content: dict[str, Any] = {
        "run": suite.profile.run.name,
        "profile": suite.path.stem,
        "config_hash": suite.config_hash,
        "pcsuite_version": __version__,
        "length_control": suite.profile.length_control,
        "tasks": {
            task.id: {
                "title": task.spec.title,
                "kind": task.spec.kind,
                "primary_metric": task.spec.primary_metric,
                "pooling": task.evaluator.pooling,
                "items": len(task.items),
                "source": task.source.describe(),
                "max_tokens": task.spec.max_tokens,
                "length_band": list(task.band),
                "answers": closed_answers(task.items),
            }
            for task in plan.tasks.values()
        },
        "models": {
            model_id: suite.models[model_id].model_dump(
                mode="json", include={"provider", "family", "size", "params_b", "price_in", "price_out"}
            )
            for model_id in plan.scope.models
        },
        "conditions": {
            cell.condition.id: {"title": cell.condition.title, "operators": list(cell.operators)}
            for cell in plan.cells
        },
        "regimes": {name: suite.regimes[name].model_dump(mode="json") for name in plan.scope.regimes},
        "objective": suite.profile.optimization.dspy.objective.model_dump(mode="json"),
        "compiled": _compiled(plan),
        "planned_rows": plan.calls,
        "not_applicable": [
            {"task": e.task_id, "model": e.model_id, "condition": e.condition_id, "reason": e.reason}
            for e in plan.not_applicable
        ],
    }
    path = manifest_path(paths)
    if plan.scope.block:
        content = _added_block(plan.scope.block, content, path)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    temporary.replace(path)


def _compiled(plan: Plan) -> list[dict[str, Any]]:
    """What the frozen files say of the compiled prompts of a plan."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in plan.cells:
        key = (cell.task.id, cell.model_id)
        if cell.condition.prompt is None or key in found:
            continue
        path = compiled_path(plan.suite.profile.run.output_dir, *key)
        content = read_compiled_file(path) if path.is_file() else {}
        if content.get("hash") == cell.condition.prompt.hash:
            kept = ("task", "model", "method", "hash", "makeup", "makeup_by", "candidates", "dev", "ledger")
            found[key] = {"condition": cell.condition.id, **{name: content.get(name) for name in kept}}
    return list(found.values())


def _added_block(block: str, content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The manifest of the run, with what a further block of the same log brings in."""
    try:
        main: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        main = {**content, "planned_rows": 0, "not_applicable": []}
    merged = {**content, **main}
    for name in ("tasks", "models", "conditions", "regimes"):
        merged[name] = {**content[name], **main.get(name, {})}
    merged["compiled"] = main.get("compiled", []) + [
        entry for entry in content["compiled"] if entry not in main.get("compiled", [])
    ]
    known = main.get("not_applicable", [])
    merged["not_applicable"] = known + [e for e in content["not_applicable"] if e not in known]
    merged["blocks"] = {**main.get("blocks", {}), block: {"planned_rows": content["planned_rows"]}}
    return merged
