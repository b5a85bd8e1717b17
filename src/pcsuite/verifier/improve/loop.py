"""The improvement loop: change the extraction prompt, extract again, keep what does not hurt the held-out evals.

The loop owns the bookkeeping and the decision; who extracts and who proposes is passed in. Proposals are drafted from
failures of the training evals alone; the held-out evals only decide. Everything is on disk before the next step
begins, so that a killed loop goes on where it stopped and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pcsuite._util.files import folder_lock
from pcsuite._util.hashing import sha256_hex
from pcsuite.config.definitions import Definition
from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.cells import decode_text, read_bytes
from pcsuite.verifier.compare import Rules, Scored, score_bytes
from pcsuite.verifier.evals import DOCUMENT, TRUTH, Eval
from pcsuite.verifier.improve.state import (
    Failure,
    ImproveState,
    PromptVersion,
    StepRecord,
    summarise_failures,
)
from pcsuite.verifier.mapping import FieldMapping, canonical_json
from pcsuite.verifier.scores import paired_difference, ratio
from pcsuite.verifier.truth import read_truth

Extract = Callable[[PromptVersion, str], Mapping[str, Any] | str]
"""``extract(prompt_version, document)``: the record, or the answer text to read it from."""
Propose = Callable[[Sequence[Failure], str], str]
"""``propose(failures, prompt)``: a changed prompt, drafted from what went wrong in the training evals."""

Decision = Literal["baseline", "kept", "rolled back"]


class ImproveConfig(Definition):
    """What the loop is told."""

    held_out: tuple[str, ...]
    """Evals the optimiser never sees; they decide whether a change is kept."""
    max_iterations: int = Field(default=10, ge=1)
    """Changes to try, in all."""
    patience: int = Field(default=3, ge=1)
    """Changes in a row that were not kept: a plateau."""
    min_gain: float = Field(default=0.0, ge=0)
    """A change is kept only if it raises the training macro-F1 by more than this."""
    margin: float = Field(default=0.02, ge=0)
    """How far the lower end of the held-out interval may lie below no change."""
    failures_shown: int = Field(default=20, ge=1)
    """Kinds of failure given to the proposer, most frequent first."""
    engine: str = ""
    """What extracts (model, condition, decoding), as a hash: scores of different engines are never compared."""

    def config_hash(self) -> str:
        """Hash of what decides a step; how long the loop goes on is no part of it."""
        content = self.model_dump(mode="json", exclude={"max_iterations", "patience"})
        return sha256_hex(canonical_json(content))


@dataclass(frozen=True, slots=True)
class ImproveResult:
    """Where the loop stands: every step, the best prompt, and why it stopped."""

    steps: tuple[StepRecord, ...]
    prompt: PromptVersion
    stopped: Literal["plateau", "max_iterations", "perfect", "proposed"]

    @property
    def best(self) -> StepRecord:
        """The step whose prompt is in use."""
        return next(step for step in reversed(self.steps) if step.decision != "rolled back")

    @property
    def gap(self) -> float:
        """Training less held-out macro-F1 of the prompt in use: how much of the gain did not carry over."""
        return self.best.train_f1 - self.best.held_out_f1


@dataclass(frozen=True, slots=True)
class _Case:
    eval: Eval
    document: str
    rules: Rules


class ImprovementLoop:
    """Runs the loop over a folder of evals, with its state in ``folder``."""

    def __init__(
        self,
        evals: Sequence[Eval],
        folder: Path,
        mapping: FieldMapping,
        config: ImproveConfig,
        extract: Extract,
        propose: Propose,
        workers: int = 1,
    ) -> None:
        """``workers``: how many extractions may run at once; above 1 ``extract`` is called from several threads."""
        _check_held_out(evals, config)
        self._cases = [_read_case(one, mapping) for one in evals]
        self._config = config
        self._extract = extract
        self._propose = propose
        self._workers = workers
        self._folder = folder
        self._state = ImproveState(
            folder, mapping.rules_hash(), config.config_hash(), _truths_hash(self._cases)
        )

    def run(self, first_prompt: str, *, propose_only: bool = False) -> ImproveResult:
        """Go on from the state on disk until a plateau, the last iteration or a perfect score.

        ``propose_only`` stops as soon as the next prompt is drafted; a later run takes it up, edited by hand or not.
        """
        with folder_lock(self._folder, timeout=1.0):
            steps = self._state.load()
            if not steps:
                steps = [self._baseline(first_prompt)]
                self._state.append(steps[0])
            while (stopped := self._stop_reason(steps)) is None:
                current = self._current(steps)
                candidate = self._state.pending(len(steps)) or self._draft(current, len(steps))
                if propose_only:
                    return ImproveResult(tuple(steps), candidate, "proposed")
                steps.append(self._try(candidate, current, len(steps)))
                self._state.append(steps[-1])
            prompt = self._state.prompt(self._current(steps).prompt_version)
        return ImproveResult(tuple(steps), prompt, stopped)

    def _stop_reason(self, steps: list[StepRecord]) -> Literal["plateau", "max_iterations", "perfect"] | None:
        current = self._current(steps)
        if current.train_f1 == 1.0:
            return "perfect"
        if len(steps) - 1 - current.iteration >= self._config.patience:
            return "plateau"
        return "max_iterations" if len(steps) > self._config.max_iterations else None

    @staticmethod
    def _current(steps: list[StepRecord]) -> StepRecord:
        return next(step for step in reversed(steps) if step.decision != "rolled back")

    def _baseline(self, first_prompt: str) -> StepRecord:
        prompt = self._state.pending(0) or self._state.save_prompt(0, first_prompt)
        return self._record(0, prompt, self._scores(prompt), "baseline", "the prompt to start from", None)

    def _draft(self, current: StepRecord, iteration: int) -> PromptVersion:
        prompt = self._state.prompt(current.prompt_version)
        scored = [(case.eval.eval_id, self._score(prompt, case)) for case in self._training()]
        failures = summarise_failures(scored)[: self._config.failures_shown]
        text = self._propose(failures, prompt.text)
        self._state.save_failures(iteration, [asdict(failure) for failure in failures])
        return self._state.save_prompt(iteration, text)

    def _try(self, candidate: PromptVersion, current: StepRecord, iteration: int) -> StepRecord:
        if candidate.text_hash == current.prompt_hash:
            return self._record(
                iteration,
                candidate,
                dict(current.scores),
                "rolled back",
                "the prompt did not change",
                current,
            )
        scores = self._scores(candidate)
        draft = self._record(iteration, candidate, scores, "kept", "", current)
        decision, reason = self._decide(draft, current)
        return self._record(iteration, candidate, scores, decision, reason, current)

    def _decide(self, step: StepRecord, current: StepRecord) -> tuple[Decision, str]:
        """Kept if training gains, and the held-out evals do not get worse on average nor possibly by the margin."""
        gain = step.train_f1 - current.train_f1
        if gain <= self._config.min_gain:
            return (
                "rolled back",
                f"training macro-F1 changed by {gain:+.4f}, not by more than {self._config.min_gain:g}",
            )
        low = step.held_out_low if step.held_out_low is not None else step.held_out_change
        if step.held_out_change < -1e-12:
            return "rolled back", f"held-out evals got worse by {-step.held_out_change:.4f} on average"
        if low < -self._config.margin - 1e-12:
            return (
                "rolled back",
                f"held-out evals may be worse by {-low:.4f}, more than {self._config.margin:g}",
            )
        return "kept", f"training {gain:+.4f}, held out {step.held_out_change:+.4f}"

    def _record(
        self,
        iteration: int,
        prompt: PromptVersion,
        scores: dict[str, float],
        decision: Decision,
        reason: str,
        before: StepRecord | None,
    ) -> StepRecord:
        held_out = sorted(self._config.held_out)
        train = [f1 for name, f1 in scores.items() if name not in held_out]
        earlier = before.scores if before else scores
        change, interval = paired_difference([earlier[n] for n in held_out], [scores[n] for n in held_out])
        return StepRecord(
            iteration=iteration,
            timestamp=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            prompt_version=prompt.version,
            prompt_hash=prompt.text_hash,
            rules_hash=self._state.rules_hash,
            config_hash=self._state.config_hash,
            scores=scores,
            train_f1=ratio(sum(train), len(train)),
            held_out_f1=ratio(sum(scores[name] for name in held_out), len(held_out)),
            held_out_change=change,
            held_out_low=interval.low if interval else None,
            held_out_high=interval.high if interval else None,
            decision=decision,
            reason=reason,
        )

    def _training(self) -> list[_Case]:
        return [case for case in self._cases if case.eval.eval_id not in self._config.held_out]

    def _scores(self, prompt: PromptVersion) -> dict[str, float]:
        if self._workers == 1:
            scored = [self._score(prompt, case) for case in self._cases]
        else:
            with ThreadPoolExecutor(self._workers) as pool:
                scored = list(pool.map(lambda case: self._score(prompt, case), self._cases))
        return {
            case.eval.eval_id: one.comparison.counts.f1 for case, one in zip(self._cases, scored, strict=True)
        }

    def _score(self, prompt: PromptVersion, case: _Case) -> Scored:
        """Score an eval under a prompt, extracting only what is not on disk yet."""
        name = case.eval.eval_id
        data = self._state.extraction(prompt, name)
        if data is None:
            answer = self._extract(prompt, case.document)
            data = self._state.save_extraction(prompt, name, answer)
        return score_bytes(data, case.rules, name, strict=False)


def choose_held_out(eval_ids: Sequence[str], seed: str) -> tuple[str, ...]:
    """A third of the evals, at least one, by the hash of their names: the same choice everywhere."""
    ranked = sorted(eval_ids, key=lambda name: sha256_hex(f"{seed}|held out|{name}"))
    return tuple(sorted(ranked[: max(1, round(len(ranked) / 3))]))


def _check_held_out(evals: Sequence[Eval], config: ImproveConfig) -> None:
    names = [one.eval_id for one in evals]
    for name in config.held_out:
        if name not in names:
            raise DataError(f"held-out eval '{name}' does not exist", hint=did_you_mean(name, names))
    if not config.held_out:
        raise DataError("no evals are held out", hint="name some: they decide whether a change is kept")
    if len(set(config.held_out)) == len(names):
        raise DataError("every eval is held out", hint="leave some for the optimiser")


def _read_case(one: Eval, mapping: FieldMapping) -> _Case:
    path = one.folder / DOCUMENT
    document = decode_text(read_bytes(path), str(path))
    return _Case(one, document, Rules.of(read_truth(one.folder / TRUTH, mapping), mapping))


def _truths_hash(cases: Sequence[_Case]) -> str:
    content = {
        case.eval.eval_id: [case.rules.truth.content_hash, sha256_hex(case.document)] for case in cases
    }
    return sha256_hex(canonical_json(content))
