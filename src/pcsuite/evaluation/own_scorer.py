"""Scorers of one's own that are no :class:`Evaluator`: a function, or the specification's ``TaskEvaluator``.

A function in a file beside the profile needs no package (``evaluator: my_scorer.py:score``):

    def score(answer, item):
        return item["queue"] in answer.casefold()

``answer`` is the text (with ``.json`` and ``.number`` read from it), ``item`` the row: its columns by name,
``item.id``, ``item.input`` and ``item.expected``. What comes back is a number from 0 to 1, ``True`` or ``False``, or a
mapping of metrics with ``score`` among them. A class with ``parse(text)`` and ``score(parsed, truth, extra)`` takes the
function's place, in a file or registered under the entry-point group ``pcsuite.tasks``.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field

from pcsuite._util import code
from pcsuite._util.hashing import canonical_json
from pcsuite._util.text import describe, shorten
from pcsuite._util.workers import Limits, inside_worker
from pcsuite.config.definitions import Definition
from pcsuite.config.load import ScorerFile
from pcsuite.data.items import Item
from pcsuite.engines.targets.changed import FolderChanges
from pcsuite.errors import ConfigError, DataError, OutOfMemoryError, OutOfTimeError
from pcsuite.evaluation import base
from pcsuite.evaluation.checks import told
from pcsuite.evaluation.isolation import ask_worker, plain_answer, shared_evaluator
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.stated_numbers import final_number

_LOGGER = logging.getLogger("pcsuite")
SCORE_NAMES = ("score", "task_score", "pass")
"""Keys of a returned mapping that may hold the score, the first that is there."""
EXPECTED_NAMES = (
    "expected",
    "answer",
    "answers",
    "label",
    "choice",
    "target",
    "gold",
    "output",
)
"""Keys of the truth taken for the expected answer, the first that is there."""
_NO_FOLDER = (
    "the folder of this answer is not there: only a target's (--in) has one, until its answer is scored"
)
_RESERVED = frozenset(
    {"answered", "truncated", "abstained", "unanswerable", "lenient_score", "token_cost", "cost_usd"}
)
_METRIC_NAME = re.compile(r"[A-Za-z_]\w{0,60}")
_LONGEST_CANONICAL = 2_000
_WRONG = ("none of these", "I cannot say", "no", "0")


class Reply(str):
    """An answer as a scorer gets it: the text without reasoning blocks, and what can be read from it."""

    finish_reason: str
    """Why generation ended: ``stop``, ``length``, …"""
    answer: base.Answer

    @property
    def folder(self) -> Path:
        """The copy of the folder that a target worked in, as it left it.

        It is there while the answer is scored for the first time; scoring anew raises ``ConfigError``, and has what
        stands in the row: :attr:`changed` and :attr:`checks`.
        """
        if self.answer.folder is None:
            raise ConfigError(_NO_FOLDER)
        return Path(self.answer.folder)

    @property
    def changed(self) -> FolderChanges:
        """What was changed in the folder: ``.files`` with ``path``, ``change`` and ``diff``, ``.paths`` by path."""
        return self.answer.changed or FolderChanges()

    @property
    def checks(self) -> Mapping[str, base.CheckResult]:
        """What became of the task's checks, by name: ``.passed``, ``.status``, ``.output``."""
        return self.answer.checks

    @property
    def json(self) -> dict[str, Any] | None:
        """The JSON object that is the answer or stands in it, ``None`` where there is none."""
        parsed = parse_object(str(self), None)
        return parsed.fields if parsed.json_valid else None

    @property
    def number(self) -> float | None:
        """The number that is marked as the answer, else the last one in the text, else ``None``."""
        numeral = final_number(str(self))[0]
        try:
            return None if numeral is None else float(Fraction(numeral))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None


class ScoredItem(Mapping[str, Any]):
    """An item as a scorer gets it: every column of the truth and of the table by name."""

    def __init__(self, item: Item, expected: str | None) -> None:
        self.id = item.item_id
        self.input = item.input_text
        # A copy: what a scorer changes must not change the item that the next answer is scored against.
        self.truth: Mapping[str, Any] = deepcopy(item.truth)
        self._values: dict[str, Any] = {**item.columns, **self.truth}
        self._expected = expected

    @property
    def expected(self) -> Any:
        """The expected answer: the key the task names, else the first of the usual names that the truth has."""
        names = EXPECTED_NAMES if self._expected is None else (self._expected,)
        return next((self._values[name] for name in names if name in self._values), None)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ScoredItem(id={self.id!r}, {', '.join(self._values)})"


class OwnScorerOptions(Definition):
    """Options of a scorer of one's own."""

    expected: str | None = None
    """Key of the truth that holds the expected answer; by default ``expected``, ``answer``, ``label`` and the like."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the function, by name."""
    time_limit_s: float = Field(default=10.0, gt=0)
    """Seconds that the function may take for one answer; the start of its process and the loading of its file do not
    count. What takes longer is ended and scores 0."""
    memory_limit_mb: int = Field(default=4096, ge=64)
    """Megabytes of memory that its process may take."""


class TaskEvaluator(ABC):
    """The specification's interface of a scorer: what an answer says, then what it is worth.

    Subclassing it is a matter of taste: any class with both methods can be plugged in. A method
    ``gold_answer(truth) -> str`` may say what a perfect answer looks like; without it one is made of the truth.
    """

    @abstractmethod
    def parse(self, text: str) -> Any:
        """What can be read from an answer, in any form that :meth:`score` takes; called once an answer."""

    @abstractmethod
    def score(self, parsed: Any, truth: Mapping[str, Any], extra: Mapping[str, Any]) -> Any:
        """A score from 0 to 1, or metrics with ``task_score`` among them.

        ``truth`` is the item's; ``extra`` has ``item_id``, ``input_text``, ``finish_reason`` and ``schema``.
        """


def is_task_evaluator(target: object) -> bool:
    """Whether something has the two methods of the specification's ``TaskEvaluator``, and is no evaluator of ours."""
    ours = isinstance(target, type) and issubclass(target, base.Evaluator)
    return not ours and all(callable(getattr(target, name, None)) for name in ("parse", "score"))


class OwnScorer(base.Evaluator):
    """Scores by a user's function; it is loaded from the text that was hashed, so that both are the same.

    ``target`` is what to call where it need not be loaded: a class that was registered, or an object of it.
    """

    Options: ClassVar[type[BaseModel]] = OwnScorerOptions
    options: OwnScorerOptions

    def __init__(
        self,
        scorer: ScorerFile,
        options: BaseModel | None = None,
        schema: Mapping[str, Any] | None = None,
        target: Any = None,
    ) -> None:
        super().__init__(options, schema)
        self.scorer = scorer
        self._target = target
        self.limits = None
        if target is None and code.is_refused():
            self._specified, self._function = None, self._not_loaded
            self.is_loaded = False
            return
        function = load_scorer(scorer, self.options.settings) if target is None else target
        self._specified = None
        if is_task_evaluator(function):
            self._specified = function
            if isinstance(function, type):
                try:
                    self._specified = function(**self.options.settings)
                except Exception as error:
                    raise ConfigError(
                        f"{scorer.name} cannot be made: {describe(error)}",
                        hint="it is made without arguments, or with those of evaluator_options: {settings: {…}}",
                    ) from error
            function = self._by_parse_and_score
        self._function = function
        if not inside_worker():
            try:
                shared_evaluator(self)
                self.limits = Limits(self.options.time_limit_s, self.options.memory_limit_mb << 20)
            except Exception as error:
                _LOGGER.warning(
                    "%s runs in this process and cannot be ended where it hangs: it cannot travel to another (%s)",
                    scorer.name,
                    describe(error),
                )

    _specified: Any
    _function: Callable[..., Any]
    is_loaded = True
    """Whether its file was executed: without it nothing can be scored."""

    def _not_loaded(self, *_: Any, **__: Any) -> Any:
        raise ConfigError(f"{self.scorer.name} was not executed", hint="leave --no-code out to score by it")

    @classmethod
    def plugged(
        cls, name: str, target: Any, options: BaseModel | None, schema: Mapping[str, Any] | None
    ) -> OwnScorer:
        """The scorer that a registered ``TaskEvaluator`` (a class, or an object of one) makes, under its name."""
        return cls(ScorerFile(Path(name), type(target).__name__, ""), options, schema, target)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as text: the file need not be on another machine, and a function made by ``exec`` has no address."""
        return type(self), (self.scorer, self.options, self.schema, self._target)

    def _by_parse_and_score(self, reply: Reply, item: ScoredItem, **settings: Any) -> Any:
        """What a ``TaskEvaluator`` says, in the form in which functions say it."""
        parsed = self._specified.parse(str(reply))
        extra = {
            "item_id": item.id,
            "input_text": item.input,
            "finish_reason": reply.finish_reason,
            "schema": self.schema,
        }
        returned = self._specified.score(parsed, dict(item.truth), extra)
        if not isinstance(returned, Mapping):
            return returned
        metrics = {name: value for name, value in returned.items() if name not in _RESERVED}
        numbers = [value for value in metrics.values() if isinstance(_plain(value), (bool, int, float))]
        if not any(name in metrics for name in SCORE_NAMES) and len(numbers) == 1:
            metrics["task_score"] = numbers[0]
        if "answer" not in metrics and parsed is not None:
            text = parsed if isinstance(parsed, (str, int, float)) else canonical_json(_jsonable(parsed))
            metrics["answer"] = base.fold(str(text))[:_LONGEST_CANONICAL]
        return metrics

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Call the function; raises :class:`ConfigError` of one line, with file, line and item, where it fails.

        As for every task, an empty answer and one that was cut off at the token limit score 0. The function runs in a
        worker; one that is over its limit of time or memory is an outcome too (:func:`base.stopped_evaluation`).
        """
        if self.limits is not None:
            try:
                evaluation: base.Evaluation = ask_worker(self, "evaluate", item, plain_answer(answer))
            except (OutOfTimeError, OutOfMemoryError) as error:
                return base.stopped_evaluation(answer, error)
            return evaluation
        text = base.clean_text(answer.text)
        reply = Reply(text)
        reply.finish_reason, reply.answer = answer.finish_reason, answer
        try:
            returned = self._function(reply, ScoredItem(item, self.options.expected), **self.options.settings)
        except MemoryError:
            raise  # of the worker's limit, not of the function's making
        except Exception as error:
            line = code.line_in(self.scorer.path, error)
            at = f" (line {line})" if line else ""
            raise ConfigError(
                f"{self.scorer.name}{at} fails on item '{item.item_id}': {describe(error)}",
                hint="mend the function; pcsuite rescore then scores the stored answers",
            ) from error
        score, metrics, scores, stated = self._read(returned, item)
        folded = base.fold(text)[:_LONGEST_CANONICAL]
        if answer.changed is not None and not folded:  # an agent may say nothing and do everything
            folded = told(answer)
        canonical = stated if stated is not None else folded
        parsed = parse_object(text, self.schema) if self.schema is not None else base.Parsed()
        parsed.answer = canonical or None
        scored = base.conclude(parsed, answer, score=score, exact_match=score == 1.0, extra=metrics)
        scored.scores = scores
        return scored

    def _read(
        self, returned: Any, item: Item
    ) -> tuple[float, dict[str, base.MetricValue], dict[str, base.NamedScore], str | None]:
        """Score, further metrics, named scores and canonical answer of what the function returned."""
        where = f"{self.scorer.name} on item '{item.item_id}'"
        scores: dict[str, base.NamedScore] = {}
        if not isinstance(returned, Mapping):
            return self._score(returned, where), {}, scores, None
        key = next((name for name in SCORE_NAMES if name in returned), None)
        if key is None:
            raise ConfigError(
                f"{where} returned a mapping without 'score'",
                hint="return {'score': 0..1 or True/False, …}",
            )
        metrics: dict[str, base.MetricValue] = {}
        stated: str | None = None
        for name, value in returned.items():
            if name == key:
                continue
            if name == "answer":
                stated = None if value is None else str(value)
                continue
            if name == "scores" and isinstance(value, Mapping):
                scores = {part: self._named(entry, f"{where}, '{part}',") for part, entry in value.items()}
                continue
            metrics[self._metric_name(name, where)] = self._metric(value, name, where)
        for name, entry in scores.items():
            if name in metrics or name in SCORE_NAMES:
                raise ConfigError(f"{where} returned two scores called '{name}'", hint="choose another name")
            metrics[self._metric_name(name, where)] = entry.value
        return self._score(returned[key], where), metrics, scores, stated

    @staticmethod
    def _metric_name(name: Any, where: str) -> str:
        if not isinstance(name, str) or not _METRIC_NAME.fullmatch(name) or name in _RESERVED:
            raise ConfigError(f"{where} returned a metric called {name!r}", hint="choose another name")
        return name

    def _named(self, entry: Any, where: str) -> base.NamedScore:
        """A named score: a number, or a mapping with ``score`` and ``reason``."""
        if not isinstance(entry, Mapping):
            return base.NamedScore(self._score(entry, where))
        return base.NamedScore(self._score(entry.get("score"), where), str(entry.get("reason") or ""))

    def _score(self, value: Any, where: str) -> float:
        value = _plain(value)
        if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
            return float(value)
        raise ConfigError(
            f"{where} returned {shorten(repr(value), 60)}: a score is a number from 0 to 1, True or False",
            hint="divide it by its maximum, or return {'score': …, 'points': …}",
        )

    def _metric(self, value: Any, name: str, where: str) -> base.MetricValue:
        value = _plain(value)
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        raise ConfigError(
            f"{where} returned {shorten(repr(value), 60)} as '{name}': metrics are finite numbers, True/False or text"
        )

    def gold_answer(self, item: Item) -> str:
        """The expected answer as text, the first of several; ``DataError`` where the truth has none.

        For a ``TaskEvaluator`` it is what that says, else the first form of the truth that it scores as perfect.
        """
        if self._specified is not None:
            if self.limits is None:
                return self._gold_by_trial(item)
            try:
                return str(ask_worker(self, "gold_answer", item))
            except (OutOfTimeError, OutOfMemoryError) as error:
                raise DataError(f"item '{item.item_id}': {self.scorer.name} took {error.message}") from error
        expected = ScoredItem(item, self.options.expected).expected
        if isinstance(expected, (list, tuple)) and expected:
            expected = expected[0]
        if expected is None:
            raise DataError(
                f"item '{item.item_id}': nothing says what the expected answer is",
                hint="name its column: evaluator_options: {expected: COLUMN}",
            )
        return str(expected)

    def _gold_by_trial(self, item: Item) -> str:
        gold_answer = getattr(self._specified, "gold_answer", None)
        if callable(gold_answer):
            return str(gold_answer(dict(item.truth)))
        expected = ScoredItem(item, self.options.expected).expected
        if isinstance(expected, (list, tuple)) and expected and "entities" not in item.truth:
            expected = expected[0]
        fields = list((self.schema or {}).get("properties", {}))
        candidates = [
            json.dumps({name: item.truth[name] for name in fields if name in item.truth}, ensure_ascii=False)
        ]
        candidates.append(json.dumps(item.truth, ensure_ascii=False))
        if expected is not None:
            candidates += [
                json.dumps({name: expected}, ensure_ascii=False) for name in (*fields, *EXPECTED_NAMES)
            ]
            candidates += [str(expected), f"#### {expected}", f"Answer: {expected}"]
        for candidate in candidates:
            if float(self.evaluate(item, base.Answer(candidate)).metrics["task_score"] or 0) >= 1:
                return candidate
        raise DataError(
            f"item '{item.item_id}': {self.scorer.name} scores no form of the truth as perfect",
            hint="give it a method gold_answer(truth), which exemplars and the simulated model show",
        )

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A text that the function scores below 1; ``DataError`` where it accepts everything that was tried."""
        candidates = rng.sample(_WRONG, len(_WRONG))
        for candidate in candidates:
            if float(self.evaluate(item, base.Answer(candidate)).metrics["task_score"] or 0) < 1:
                return candidate
        raise DataError(
            f"{self.scorer.name} scores {', '.join(candidates)} as right on item '{item.item_id}'"
        )

    def check_items(self, items: Sequence[Item]) -> None:
        """Call the function once, on the first item, so that one that cannot work raises before any call is paid."""
        for item in items[:1] if self.is_loaded else ():
            if self._specified is not None:
                self.gold_answer(item)
                continue
            expected = ScoredItem(item, self.options.expected).expected
            try:
                self.evaluate(item, base.Answer(str(expected) if expected is not None else "an answer"))
            except ConfigError as error:
                if _NO_FOLDER not in error.message:  # there is none to try it on before the first call
                    raise


def _jsonable(value: Any) -> Any:
    """What stands for a parsed answer in a row: itself where JSON can hold it, else its text."""
    try:
        return json.loads(json.dumps(value, default=str))
    except (TypeError, ValueError):
        return str(value)


def _plain(value: Any) -> Any:
    """A Python value for a scalar of numpy and the like."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def check_scorer(reference: str | None) -> None:
    """Refuse a function of one's own that cannot be loaded, before a task file names it.

    ``reference`` is ``FILE.py:FUNCTION`` from the working folder; another name, or none, is nobody's function. Raises
    :class:`ConfigError` as :func:`load_scorer` does.
    """
    scorer = ScorerFile.read(reference, [Path()]) if reference else None
    if scorer is not None:
        load_scorer(scorer, {})


def load_scorer(scorer: ScorerFile, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of a scorer's file, its own folder on the path while it is loaded.

    Raises :class:`ConfigError` of one line where the file cannot be executed, has no such function, or one that cannot
    be called with an answer, an item and the task's ``settings``.
    """
    module = code.execute(scorer.path, scorer.source, f"pcsuite_scorer_{scorer.path.stem}", once=True)
    function = module.__dict__.get(scorer.function)
    if not callable(function):
        there = [name for name, value in module.__dict__.items() if inspect.isfunction(value)]
        defined = [name for name in there if module.__dict__[name].__module__ == module.__name__]
        hint = f"it has {', '.join(defined)}" if defined else f"write def {scorer.function}(answer, item): …"
        raise ConfigError(f"{scorer.path}: no function '{scorer.function}'", hint=hint)
    if is_task_evaluator(function):
        return cast(Callable[..., Any], function)
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{scorer.name} is async: a plain function is needed")
    try:
        inspect.signature(function).bind("answer", {}, **settings)
    except TypeError as error:
        hint = f"def {scorer.function}(answer, item{''.join(f', {name}' for name in settings)}): …"
        raise ConfigError(
            f"{scorer.name} cannot be called with an answer and an item: {error}", hint=hint
        ) from error
    except ValueError:
        pass  # a builtin without a signature
    return cast(Callable[..., Any], function)
