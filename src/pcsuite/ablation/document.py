"""Everything an ablation found, as plain values: ``ablation.json``."""

from __future__ import annotations

from typing import Any

from pcsuite.ablation.amounts import AmountChange
from pcsuite.ablation.arms import AGAIN
from pcsuite.ablation.covariate import covariate_sentence
from pcsuite.ablation.records import limits_record, verdict_records
from pcsuite.ablation.result import AblationResult, ArmSummary
from pcsuite.ablation.screen import GroupVerdict
from pcsuite.ablation.sentences import (
    group_sentence,
    headline,
    margin_sentence,
    noise_sentence,
    trim_sentence,
)
from pcsuite.ablation.trim import Trim, TrimStep
from pcsuite.ablation.verdicts import least_margin
from pcsuite.analysis.table import number


def document(result: AblationResult) -> dict[str, Any]:
    """Everything an ablation found, as plain values.

    It is what ``ablation.json`` holds. Figures that are no number are ``None``, so that any JSON reader takes it.

        document(ablate(request))["says"]["answer"]
    """
    study = result.study
    return {
        "prompt": str(study.request.prompt),
        **({"prompts": [str(path) for path in study.request.prompts]} if study.request.more_prompts else {}),
        "model": study.model_id,
        "task": study.task.id,
        "items": result.items,
        "clusters": result.clusters,
        "related": study.task.related,
        "margin": study.request.margin,
        "least_margin": least_margin(result.items) if result.clusters == result.items > 1 else None,
        "missing": study.request.missing,
        "assume": study.request.assume,
        "design": study.design.why,
        "says": {
            "answer": headline(result),
            "trimmed": trim_sentence(result),
            "margin": margin_sentence(result),
            "control": noise_sentence(result),
        },
        "verdicts": verdict_records(result),
        "amounts": [_amount(change) for change in result.amounts],
        "covariate": _covariate(result),
        "groups": [_group(result, entry) for entry in result.groups],
        "flips": {name: {"with": list(a), "without": list(b)} for name, (a, b) in result.flips.items()},
        "interactions": [
            {"blocks": [entry.first, entry.second], "words": entry.words, "p_holm": entry.p_value}
            | limits_record("estimate", entry.estimate)
            for entry in result.interactions
        ],
        "attribution": [
            {"block": entry.operator, "method": entry.method, "p": entry.test.p_value}
            | limits_record("effect", entry.effect)
            for entry in result.attribution
        ],
        "again": {
            **limits_record("difference", result.noise),
            "p": result.noise_p,
            "flips": result.noise_flips,
            "answers": study.answers,
        },
        "trim": None if result.trim is None else _trim(result, result.trim),
        "arms": [_arm(arm) for arm in result.arms],
        "reach": [entry.record() for entry in result.reach],
        "adherence": [entry.record() for entry in result.adherence],
        "named_scores": [record for entry in result.named for record in entry.records()],
        "yearly": [saving.record() for saving in result.yearly],
        "calls_per_day": study.request.calls_per_day,
        "stopped": result.stopped,
        "judge": result.judge,
        "control": AGAIN,
    }


def _amount(change: AmountChange) -> dict[str, Any]:
    return {
        "block": change.block,
        "measure": change.measure,
        "verdict": change.verdict,
        "clause": change.clause,
        "note": change.note,
        "p_holm": number(change.p_value),
    } | limits_record("change", change.change)


def _covariate(result: AblationResult) -> dict[str, Any] | None:
    covariate = result.study.covariate
    if covariate is None:
        return None
    return {
        "source": covariate.source,
        "items": len(covariate.values),
        "says": covariate_sentence(covariate, result.study.count, result.adjusted.values()),
        "adjusted": {
            name: limits_record("effect", entry.estimate)
            | {"slope": entry.slope, "saved": number(entry.saved)}
            for name, entry in result.adjusted.items()
        },
    }


def _group(result: AblationResult, entry: GroupVerdict) -> dict[str, Any]:
    return {
        "blocks": list(entry.blocks),
        "verdict": entry.verdict.verdict,
        "note": entry.verdict.note,
        "clause": entry.verdict.clause,
        "says": group_sentence(result, entry) if len(entry.blocks) > 1 else "",
        "no_worse": entry.verdict.no_worse,
        "most_lost": entry.verdict.most_lost,
        "split": entry.split,
        "p": entry.verdict.p_value,
        "lenient_verdict": entry.verdict.lenient_verdict,
        "form": entry.verdict.form or None,
    } | limits_record("effect", entry.verdict.effect)


def _trim(result: AblationResult, trim: Trim) -> dict[str, Any]:
    return {
        "chosen": list(trim.chosen),
        "dropped": list(trim.dropped),
        "steps": [_trim_step(step) for step in trim.steps],
        "saved": {
            "tokens_per_1000": number(result.saved_tokens),
            "usd_per_1000": number(result.saved_usd),
        },
    }


def _trim_step(step: TrimStep) -> dict[str, Any]:
    # The value of the simultaneous estimate is that of the difference; only its limits are news.
    simultaneous = limits_record("simultaneous", step.simultaneous)
    del simultaneous["simultaneous"]
    return {
        "dropped": list(step.dropped),
        "confirmed": step.confirmed,
        "items": step.difference.n,
        "clusters": step.clusters,
        "missing": step.missing,
        "most_lost": step.most_lost,
        **limits_record("difference", step.difference),
        **simultaneous,
    }


def _arm(arm: ArmSummary) -> dict[str, Any]:
    return {
        "id": arm.id,
        "operators": list(arm.operators),
        "items": arm.items,
        "score": number(arm.score),
        "missing": arm.missing,
        "outcomes": dict(arm.outcomes),
        "ambiguous": arm.ambiguous,
        **{name: number(value) for name, value in arm.measures.items()},
    }
