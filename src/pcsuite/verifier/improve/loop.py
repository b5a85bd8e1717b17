"""The improvement loop: change the extraction prompt, extract again, keep what does not hurt the held-out evals.

The loop owns the bookkeeping and the decision; who extracts and who proposes is passed in. Proposals are drafted from
failures of the training evals alone; the held-out evals only decide. Everything is on disk before the next step
begins, so that a killed loop goes on where it stopped and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from pcsuite._util.files import folder_lock
from pcsuite._util.hashing import digest, sha256_hex
from pcsuite._util.text import signed
from pcsuite.config.definitions import Definition
from pcsuite.errors import DataError, EngineError, UnansweredError, did_you_mean
from pcsuite.verifier.cells import read_text
from pcsuite.verifier.evals import DOCUMENT, Eval
from pcsuite.verifier.improve import state
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.results import Rules, Scored, require_fields, rules_of, score_bytes
from pcsuite.verifier.scores import paired_difference
from pcsuite.verifier.truth import read_truth

Extract = Callable[[state.PromptVersion, str], Mapping[str, Any] | str]
"""``extract(prompt_version, document)``: the record, or the answer text to read it from."""
Documents = Callable[[Eval], tuple[str, str]]
"""``documents(eval)``: what ``extract`` is given of an eval, and the hash of the document's content."""
Propose = Callable[[Sequence[state.Failure], str], str]
"""``propose(failures, prompt)``: a changed prompt, drafted from what went wrong in the training evals."""

Decision = Literal["baseline", "kept", "rolled back"]


class ImproveConfig(Definition):
    """Settings of the loop."""

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
        """Hash (sha256, hex) of what decides a step; how long the loop goes on is no part of it.

        A loop that is given more iterations or patience goes on; one with other evals held out, another margin or
        another engine is another loop.
        """
        return digest(self.model_dump(mode="json", exclude={"max_iterations", "patience"}))


class ImproveResult(NamedTuple):
    """Where the loop stands: every step, the best prompt, and why it stopped."""

    steps: tuple[state.StepRecord, ...]
    prompt: state.PromptVersion
    stopped: Literal["plateau", "max_iterations", "perfect", "proposed"]

    @property
    def best(self) -> state.StepRecord:
        """The step whose prompt is in use: the last that was not rolled back.

        Iteration 0, the prompt to start from, is always one, so there is a best even where no change was kept.
        """
        return _in_use(self.steps)

    @property
    def gap(self) -> float:
        """Training less held-out macro-F1 of the prompt in use: how much of the gain did not carry over.

        In F1, -1 to 1; above 0 where the prompt fits the training evals better than those it never saw.
        """
        return self.best.train_f1 - self.best.held_out_f1


def text_document(one: Eval) -> tuple[str, str]:
    """The text of an eval's ``document.txt`` and its hash.

    Raises ``DataError`` where there is none, or it is no text.
    """
    text = read_text(one.folder / DOCUMENT)
    return text, sha256_hex(text)


class _Case(NamedTuple):
    name: str
    document: str
    document_hash: str
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
        documents: Documents = text_document,
    ) -> None:
        """``workers``: how many extractions may run at once; above 1 ``extract`` is called from several threads.

        Raises ``DataError`` for held-out evals that do not exist, none of them or all of them, and for an eval whose
        truth or document cannot be read.
        """
        names = [one.eval_id for one in evals]
        for name in config.held_out:
            if name not in names:
                raise DataError(f"held-out eval '{name}' does not exist", hint=did_you_mean(name, names))
        if not config.held_out:
            raise DataError("no evals are held out", hint="name some: they decide whether a change is kept")
        if len(set(config.held_out)) == len(names):
            raise DataError("every eval is held out", hint="leave some for the optimiser")
        rules = rules_of([read_truth(one.truth, mapping) for one in evals], mapping)
        for one, of_one in zip(evals, rules, strict=True):
            require_fields(of_one, str(one.truth))
            if of_one.truth.records is not None:
                raise DataError(
                    f"{one.truth}: holds {len(of_one.truth.records)} records",
                    hint="an eval to improve on has one",
                )
        self._cases = [
            _Case(one.eval_id, *documents(one), of_one) for one, of_one in zip(evals, rules, strict=True)
        ]
        self._config = config
        self._extract = extract
        self._propose = propose
        self._workers = workers
        self._folder = folder
        contents = {one.name: [one.rules.truth.content_hash, one.document_hash] for one in self._cases}
        self._state = state.ImproveState(folder, rules[0].rules_hash, config.config_hash(), digest(contents))

    def run(self, first_prompt: str, *, propose_only: bool = False) -> ImproveResult:
        """Go on from the state on disk until a plateau, the last iteration or a perfect score.

        ``first_prompt`` is where a new loop starts. ``propose_only`` stops as soon as the next prompt is drafted; a
        later run takes it up, edited by hand or not. Raises ``RunLockedError`` where another process runs the loop.
        """
        with folder_lock(self._folder, timeout=1.0):
            steps = self._state.load()
            if not steps:
                prompt = self._state.pending(0) or self._state.save_prompt(0, first_prompt)
                reason = "the prompt to start from"
                steps = [self._record(0, prompt, self._scores(prompt), "baseline", reason, None)]
                self._state.append(steps[0])
            stopped: Literal["plateau", "max_iterations", "perfect"]
            while True:
                current = _in_use(steps)
                if current.train_f1 == 1.0:
                    stopped = "perfect"
                    break
                if len(steps) - 1 - current.iteration >= self._config.patience:
                    stopped = "plateau"
                    break
                if len(steps) > self._config.max_iterations:
                    stopped = "max_iterations"
                    break
                candidate = self._state.pending(len(steps))
                if candidate is None:  # drafted from the failures of the training evals, and both are stored
                    prompt = self._state.prompt(current.prompt_version)
                    training = [case for case in self._cases if case.name not in self._config.held_out]
                    scored = [(case.name, self._score(prompt, case)) for case in training]
                    failures = state.summarise_failures(scored)[: self._config.failures_shown]
                    try:
                        text = self._propose(failures, prompt.text)
                    except EngineError as error:
                        raise UnansweredError(
                            f"the next prompt was not drafted: {error.message}",
                            hint="finished steps are kept; the same command goes on",
                        ) from error
                    self._state.save_failures(len(steps), [asdict(failure) for failure in failures])
                    candidate = self._state.save_prompt(len(steps), text)
                if propose_only:
                    return ImproveResult(tuple(steps), candidate, "proposed")
                steps.append(self._try(candidate, current, len(steps)))
                self._state.append(steps[-1])
            prompt = self._state.prompt(_in_use(steps).prompt_version)
        return ImproveResult(tuple(steps), prompt, stopped)

    def _try(
        self, candidate: state.PromptVersion, current: state.StepRecord, iteration: int
    ) -> state.StepRecord:
        """Score a change; keep it if training gains and the held-out evals neither lose on average nor may by more."""
        if candidate.text_hash == current.prompt_hash:
            reason = "the prompt did not change"
            return self._record(iteration, candidate, dict(current.scores), "rolled back", reason, current)
        step = self._record(iteration, candidate, self._scores(candidate), "rolled back", "", current)
        gain, change, limits = step.train_f1 - current.train_f1, step.held_out_change, self._config
        low = step.held_out_low if step.held_out_low is not None else change
        if gain <= limits.min_gain:
            reason = f"training macro-F1 changed by {signed(gain, 4)}, not by more than {limits.min_gain:g}"
        # Less than that is rounding.
        elif change < -1e-12:
            reason = f"held-out evals got worse by {-change:.4f} on average"
        elif low < -limits.margin - 1e-12:
            reason = f"held-out evals may be worse by {-low:.4f}, more than {limits.margin:g}"
        else:
            return replace(
                step, decision="kept", reason=f"training {signed(gain, 4)}, held out {signed(change, 4)}"
            )
        return replace(step, reason=reason)

    def _record(
        self,
        iteration: int,
        prompt: state.PromptVersion,
        scores: dict[str, float],
        decision: Decision,
        reason: str,
        before: state.StepRecord | None,
    ) -> state.StepRecord:
        held_out = sorted(self._config.held_out)
        train = [f1 for name, f1 in scores.items() if name not in held_out]
        earlier = before.scores if before else scores
        change, interval = paired_difference([earlier[n] for n in held_out], [scores[n] for n in held_out])
        return state.StepRecord(
            iteration=iteration,
            timestamp=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            prompt_version=prompt.version,
            prompt_hash=prompt.text_hash,
            rules_hash=self._state.rules_hash,
            config_hash=self._state.config_hash,
            scores=scores,
            train_f1=sum(train) / len(train),
            held_out_f1=sum(scores[name] for name in held_out) / len(held_out),
            held_out_change=change,
            held_out_low=interval[0] if interval else None,
            held_out_high=interval[1] if interval else None,
            decision=decision,
            reason=reason,
        )

    def _scores(self, prompt: state.PromptVersion) -> dict[str, float]:
        """F1 of every eval under a prompt; what one call failed for, the others are still asked for.

        Raises ``UnansweredError`` after that, since a step is judged on all of them.
        """
        failed: list[EngineError] = []

        def score(case: _Case) -> float:
            try:
                return self._score(prompt, case).comparison.counts.f1
            except EngineError as error:
                failed.append(error)
                return 0.0  # never judged: the step is not finished

        if self._workers == 1:
            scored = [score(case) for case in self._cases]
        else:
            pool = ThreadPoolExecutor(self._workers)
            try:
                scored = list(pool.map(score, self._cases))
            finally:
                # After an interrupt the calls in flight are cancelled by whoever made them, not waited for.
                pool.shutdown(wait=False, cancel_futures=True)
        if failed:
            raise UnansweredError(
                f"{len(failed)} of {len(self._cases)} documents were not answered, the last one because: "
                f"{failed[-1].message}",
                hint="the other answers are kept; the same command asks for these again",
            )
        return dict(zip((case.name for case in self._cases), scored, strict=True))

    def _score(self, prompt: state.PromptVersion, case: _Case) -> Scored:
        """Score an eval under a prompt, extracting only what is not on disk yet."""
        data = self._state.extraction(prompt, case.name)
        if data is None:
            answer = self._extract(prompt, case.document)
            data = self._state.save_extraction(prompt, case.name, answer)
        return score_bytes(data, case.rules, case.name, strict=False)


def _in_use(steps: Sequence[state.StepRecord]) -> state.StepRecord:
    return next(step for step in reversed(steps) if step.decision != "rolled back")


def choose_held_out(eval_ids: Sequence[str], seed: str) -> tuple[str, ...]:
    """A third of the evals, at least one, sorted: the same choice on every machine.

    They are those whose names, hashed with ``seed`` (``repro.deterministic_hash_seed``), come first.
    """
    ranked = sorted(eval_ids, key=lambda name: sha256_hex(f"{seed}|held out|{name}"))
    return tuple(sorted(ranked[: max(1, round(len(ranked) / 3))]))
