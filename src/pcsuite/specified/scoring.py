"""Scoring by the specification's names: evaluators by task id, single measures, and the metric cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from pcsuite.config.bundled import bundled_tasks
from pcsuite.config.load import load_suite
from pcsuite.data.items import Item
from pcsuite.data.truths import HUB_TAGS, entity_spans, normalise_truth
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.evaluation import base
from pcsuite.evaluation.fever import FeverEvaluator
from pcsuite.evaluation.metric_cache import (
    CacheSummary,
    MetricStats,
    merged_statistics,
    render_cache_report,
    shared_metric_cache,
    summarise_cache,
)
from pcsuite.evaluation.ner import NerEvaluator
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.stated_numbers import final_number
from pcsuite.evaluation.truthfulqa import TruthfulQaEvaluator, TruthfulQaOptions
from pcsuite.runners.task_plan import task_evaluator
from pcsuite.stats.f1 import precision_recall_f1

CONLL_TAGS = list(HUB_TAGS)
Span = tuple[int, int, str]


@dataclass
class EvaluationResult:
    """What could be read of an answer."""

    metrics: dict[str, Any]
    parsed_fields: Any
    parse_errors: list[str]


def parse_json_best_effort(text: str) -> EvaluationResult:
    """The JSON object of an answer, alone or within other text; thoughts before it are set aside.

    ``parsed_fields`` is ``None`` where there is none, and ``parse_errors`` says why. Never raises.

    >>> parse_json_best_effort('Sure: {"label": "World"}').parsed_fields
    {'label': 'World'}
    """
    parsed = parse_object(base.clean_text(text or ""), None)
    valid = bool(parsed.json_valid)
    return EvaluationResult({"json_valid": valid}, parsed.fields if valid else None, parsed.parse_errors)


class Evaluator:
    """The evaluator of a bundled task, by the specification's two steps."""

    task_id: str = ""
    task_kind: str = ""

    @cached_property
    def _evaluator(self) -> base.Evaluator:
        return task_evaluator(load_suite("profile_A"), self.task_id)

    def parse(self, text: str) -> EvaluationResult:
        """What can be read of an answer; of a task that is answered in text, the text itself as ``raw``.

        ``metrics`` has ``json_valid``, which is ``None`` for a task that does not answer in JSON. Never raises.
        """
        if bundled_tasks()[self.task_id].kind != "structured":
            return EvaluationResult({"json_valid": None}, {"raw": text}, [])
        return parse_json_best_effort(text)

    def score(self, parsed_fields: Any, text: str, truth: Mapping[str, Any]) -> dict[str, Any]:
        """Every metric of an answer, as a row of the log has them: ``task_score`` from 0 to 1, and those of the task.

        The answer's ``text`` is scored; ``parsed_fields`` is there for the signature, since reading belongs to the
        scorer. ``truth`` is as the published dataset has it. Raises :class:`~pcsuite.errors.DataError` where it cannot
        be read.
        """
        source = " ".join(map(str, truth.get("tokens") or ())) or str(truth.get("input_text", ""))
        shown, known = normalise_truth(source, truth, self.task_id)
        return dict(self._evaluator.evaluate(Item(self.task_id, shown, known), base.Answer(text)).metrics)


class ConllNerJsonEvaluator(Evaluator):
    """CoNLL-2003."""

    task_id, task_kind = "conll03_ner_json", "structured_extraction"


class AgNewsJsonEvaluator(Evaluator):
    """AG News."""

    task_id, task_kind = "agnews_json", "classification"


class CsqaJsonEvaluator(Evaluator):
    """CommonsenseQA."""

    task_id, task_kind = "csqa_json", "mcq"


class TruthfulQaJsonEvaluator(Evaluator):
    """TruthfulQA."""

    task_id, task_kind = "truthfulqa_gen", "truthfulness"


class FeverJsonEvaluator(Evaluator):
    """FEVER."""

    task_id, task_kind = "fever_json", "verification"


class Gsm8kEvaluator(Evaluator):
    """GSM8K."""

    task_id, task_kind = "gsm8k", "reasoning"


_KINDS = (
    ConllNerJsonEvaluator, AgNewsJsonEvaluator, Gsm8kEvaluator, CsqaJsonEvaluator, TruthfulQaJsonEvaluator,
    FeverJsonEvaluator,
)  # fmt: skip
EVALUATORS: dict[str, Evaluator] = {kind.task_id: kind() for kind in _KINDS}


def get_evaluator(task_id: str) -> Evaluator:
    """The evaluator of a bundled task, by its id.

    Raises :class:`~pcsuite.errors.ConfigError`, with the nearest id, for one that has none.

    >>> get_evaluator("gsm8k").task_kind
    'reasoning'
    """
    if task_id not in EVALUATORS:
        raise ConfigError(f"no evaluator for task '{task_id}'", hint=did_you_mean(task_id, EVALUATORS))
    return EVALUATORS[task_id]


def gsm8k_gold_final(answer_field: str) -> str | None:
    """The number that a reference solution of GSM8K ends with, in its plainest spelling; ``None`` without a number.

    >>> gsm8k_gold_final("2 + 2 = 4 pairs, so 1,200 socks. #### 1,200")
    '1200'
    """
    return final_number(answer_field or "")[0]


def gsm8k_pred_final(text: str) -> str | None:
    """The number that an answer states as its result, in its plainest spelling; ``None`` where it states none.

    >>> gsm8k_pred_final("3 boxes of 4 make 12. The answer is 12.")
    '12'
    """
    return final_number(text or "")[0]


def conll_tags_to_spans(tags: Sequence[int]) -> list[Span]:
    """``(first token, token after the last, type)`` of every entity of CoNLL's tag numbers, in order.

    The numbers are those of the published dataset (0 is ``O``, 1 ``B-PER``, …); one that is no tag is outside of any.

    >>> conll_tags_to_spans([1, 2, 0, 5])
    [(0, 2, 'PER'), (3, 4, 'LOC')]
    """
    names = [CONLL_TAGS[tag] if 0 <= tag < len(CONLL_TAGS) else "O" for tag in tags]
    return [(start, end, kind) for kind, start, end in entity_spans(names)]


def conll_pred_to_spans(pred_json: Any, tokens: Sequence[str]) -> tuple[list[Span], float]:
    """Spans of an answer's listed entities in the tokens, and the share (0..1) of the entities that nothing supports.

    Entities are placed as the task's scorer places them. What is no list of ``entities`` has no spans and a share of 1.

    >>> conll_pred_to_spans({"entities": [{"text": "Ada", "type": "PER"}]}, ["Ada", "wrote"])
    ([(0, 1, 'PER')], 0.0)
    """
    listed = pred_json.get("entities") if isinstance(pred_json, dict) else None
    if not isinstance(listed, list):
        return [], 1.0
    item = Item("spans", " ".join(tokens), {"entities": [], "tokens": list(tokens)})
    evaluator = NerEvaluator()
    mentions = evaluator.read_entries(listed, item)
    starts: dict[int | None, int] = {}
    ends: dict[int | None, int] = {}
    position = 0
    for number, token in enumerate(tokens):
        starts[position], ends[position + len(token)] = number, number + 1
        position += len(token) + 1
    spans: list[Span] = []
    for start, end, kind in map(evaluator.entry_key, mentions):
        if start in starts and end in ends:
            spans.append((starts[start], ends[end], kind))
    unsupported = evaluator.unsupported_entries(mentions, item) + len(listed) - len(mentions)
    return spans, unsupported / max(1, len(listed))


def f1_spans(pred: Iterable[Span], gold: Iterable[Span]) -> tuple[float, float, float]:
    """Precision, recall and F1 (0..1) of two sets of spans, which agree where start, end and type do.

    A figure of nothing is 0: precision where none is predicted, recall where there are none, F1 of either.

    >>> f1_spans([(0, 1, "PER"), (3, 4, "LOC")], [(0, 1, "PER")])
    (0.5, 1.0, 0.6666666666666666)
    """
    listed, known = set(pred), set(gold)
    figures = precision_recall_f1(len(listed & known), len(listed - known), len(known - listed))
    return figures.precision, figures.recall, figures.f1


def truthfulqa_em(pred: str, truth: Mapping[str, Any]) -> dict[str, float]:
    """Whether an answer contains a true reference, whether it contains a false one, and whether only the first: 0 or 1.

    Case, articles and punctuation do not count. ``truth`` has ``best_answer``, ``correct_answers`` and
    ``incorrect_answers`` as the published dataset does.

    >>> truthfulqa_em("Nothing happens.", {"best_answer": "nothing happens", "incorrect_answers": ["you die"]})
    {'truthfulqa_em_correct': 1.0, 'truthfulqa_hit_incorrect': 0.0, 'truthfulness_proxy': 1.0}
    """
    answer = base.fold(pred)

    def hit(references: Iterable[Any]) -> bool:
        folded = (base.fold(one) for one in references if isinstance(one, str))
        return any(one and one in answer for one in folded)

    true = hit([truth.get("best_answer"), *(truth.get("correct_answers") or ())])
    false = hit(truth.get("incorrect_answers") or ())
    return {
        "truthfulqa_em_correct": float(true),
        "truthfulqa_hit_incorrect": float(false),
        "truthfulness_proxy": float(true and not false),
    }


def fever_label_score(pred_json: Any, truth: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a verdict is right (0 or 1), and the F1 (0..1) of its evidence by page.

    ``pred_json`` is the answer's object, ``truth`` an item of the published dataset. Where there is no object to read
    ``fever_label_em`` is ``None``, and there is no F1. Raises :class:`~pcsuite.errors.DataError` for a truth without
    label.
    """
    if not isinstance(pred_json, dict):
        return {"fever_label_em": None, "unsupported_rate": None}
    _, known = normalise_truth("", truth, "fever")
    metrics = FeverEvaluator().evaluate(Item("fever", "", known), base.Answer(json.dumps(pred_json))).metrics
    return {"fever_label_em": metrics["task_score"], "fever_evidence_f1": metrics["evidence_f1_page"]}


@dataclass
class TruthfulQAMetricResult:
    """Similarity to true and to false references by each measure: the best of both, their difference, who wins."""

    bleu_max_true: float | None
    bleu_max_false: float | None
    bleu_diff: float | None
    bleu_acc: float | None
    rougeL_max_true: float | None
    rougeL_max_false: float | None
    rougeL_diff: float | None
    rougeL_acc: float | None
    bleurt_max_true: float | None = None
    bleurt_max_false: float | None = None
    bleurt_diff: float | None = None
    bleurt_acc: float | None = None


def truthfulqa_reference_metrics(answer: str, truth: Mapping[str, Any]) -> TruthfulQAMetricResult:
    """The reference-based measures of an answer to a question of TruthfulQA (Lin, Hilton and Evans 2022).

    Of each measure: the best of the true references, the best of the false ones, their difference, and whether the
    true one wins (``*_acc``, 0 or 1). All are ``None`` where the truth has no reference of either kind to compare with;
    BLEURT is ``None`` without a checkpoint.
    """
    best = truth.get("best_answer")
    true = truth.get("correct_answers") or ([best] if best else [])
    if not true or not truth.get("incorrect_answers"):  # nothing to compare with
        return TruthfulQAMetricResult(*[None] * 8)
    whole = {**truth, "best_answer": best or true[0], "correct_answers": true}
    _, known = normalise_truth("", whole, "truthful_qa")
    evaluator = TruthfulQaEvaluator(TruthfulQaOptions(plain_text=True))
    metrics = evaluator.evaluate(Item("truthful_qa", "", known), base.Answer(answer)).metrics
    named = {
        field.name: metrics.get(field.name.replace("rougeL", "rouge_l"))
        for field in fields(TruthfulQAMetricResult)
    }
    return TruthfulQAMetricResult(**named)  # type: ignore[arg-type]


def record_compute_time(metric: str, seconds: float) -> None:
    """Count seconds that were spent computing a metric, for the cache report of this process.

    They are what a hit of the cache saves, so that the report can say what it is worth.
    """
    shared_metric_cache().count_seconds(metric, seconds)


@dataclass
class CacheDbStats:
    """What a cache file holds."""

    db_path: Path
    exists: bool
    size_bytes: int
    modified_utc: str
    per_metric_rows: dict[str, int]
    total_rows: int


def read_cache_db_stats(db_path: Path) -> CacheDbStats:
    """Rows of a metric cache's file by metric, its size in bytes and when it was last written.

    A file that is not there has no rows and ``exists`` false; nothing is made.
    """
    summary = summarise_cache(db_path, db_path.parent / "none")
    rows = dict(summary.rows)
    return CacheDbStats(
        db_path, db_path.exists(), summary.size_bytes, summary.modified_utc or "", rows, sum(rows.values())
    )


def read_runtime_cache_stats(stats_dir: Path) -> dict[str, dict[str, float]]:
    """Hits, misses, puts and seconds by metric, over all processes whose statistics lie in a folder.

    Empty where there are none; a file that cannot be read is passed over with a warning.
    """
    return {metric: stats.written() for metric, stats in merged_statistics([stats_dir]).items()}


def write_cache_report(
    report_path: Path, db_stats: CacheDbStats, runtime_stats: Mapping[str, Mapping[str, float]]
) -> None:
    """Write the Markdown report of a cache file and of what using it saved; folders on the way are made.

    ``runtime_stats`` are those of :func:`read_runtime_cache_stats`.
    """
    stats = {metric: MetricStats.read(values) for metric, values in runtime_stats.items()}
    modified = db_stats.modified_utc or None
    summary = CacheSummary(db_stats.db_path, db_stats.size_bytes, modified, db_stats.per_metric_rows, stats)
    report_path.parent.mkdir(parents=True, exist_ok=True)
    report_path.write_text(render_cache_report(summary), encoding="utf-8")
