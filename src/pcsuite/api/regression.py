"""A prompt held against what it was: ``check``, and a run against a committed baseline, as the pytest fixture does.

A test must not fail because one answer of forty came out differently today. So the new run is compared with the
baseline item by item (replicates averaged first), by the rules of ``pcsuite compare``: it fails only where the score is
reliably lower and the loss seen is over the margin; it is shown to be no worse where non-inferiority holds at the
margin; what lies between is undecided, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcsuite._util.hashing import digest, sha256_hex
from pcsuite._util.text import counted, limits_text, signed
from pcsuite.ablation import AblationRequest
from pcsuite.ablation.arms import FULL
from pcsuite.ablation.study import prompt_profile
from pcsuite.analysis.baseline import Baseline
from pcsuite.analysis.comparison import COMPARE, Comparison
from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.table import Table
from pcsuite.api.prompts import Rows, request_of, told_as_given, write_given
from pcsuite.api.references import Reference, find_reference, prompt_file
from pcsuite.api.runs import Run, compare, run
from pcsuite.config.load import Suite
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import Assumption, Standing
from pcsuite.errors import AnalysisError, ConfigError, PromptError, did_you_mean
from pcsuite.prompts.blocks import read_prompt
from pcsuite.reporting.gates import gate_line
from pcsuite.reporting.markdown import comparison_text
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.run_suite import LOCAL

MARGIN = 0.05
"""How much lower a whole prompt may score before anyone should care, where nobody says."""


@dataclass(frozen=True, slots=True)
class RegressionCheck:
    """How a run stands against its baseline."""

    comparison: Comparison
    baseline: str
    """What the baseline is called in sentences and tables."""
    run: str
    """What the run that is judged is called there."""
    changed_items: int = 0
    """Items that are not compared, because they read otherwise than when the baseline was made."""
    reference: Reference | None = None
    """What ``check`` was told to hold the prompt against, and how it was found."""
    earlier: Run | None = None
    """The baseline's run, where it is one: it has the answers."""
    later: Run | None = None
    """The run that is judged; ``None`` where nothing had to be asked."""

    @property
    def unchanged(self) -> bool:
        """Whether the prompt reads as its baseline does, so that there was nothing to ask."""
        return self.later is None and self.reference is not None

    @property
    def standing(self) -> Standing:
        """``worse``, ``no worse`` or ``undecided``.

        ``worse``: reliably lower, and the loss seen is over the margin. ``no worse``: non-inferior at the margin, or
        the prompt is unchanged. ``undecided``: neither is shown, which more items would change.
        """
        return "no worse" if self.unchanged else self.comparison.standing

    def passes(self, *, undecided: bool = True) -> bool:
        """Whether a gate lets it through; ``undecided`` says whether it does where nothing is shown."""
        if self.standing == "worse" or self.hides:
            return False
        return undecided or self.standing == "no worse"

    @property
    def hides(self) -> bool:
        """Whether missing scores could hide a regression that the scored items do not show."""
        return bool(self.comparison.hidden or self.comparison.unscored)

    @property
    def reach(self) -> str:
        """What the gate can find, in one line; empty where nothing can be said."""
        return gate_line(self.comparison.gates)

    def sentence(self) -> str:
        """The judgement in one line, with the figures it rests on.

        Of several compared cells the figures are those of the largest loss.
        """
        margin = self.comparison.margin
        if self.unchanged:
            return f"{self.run}: unchanged, it reads as {self.baseline} does; nothing was asked"
        scores = [record for record in self.comparison.table.records() if record["metric"] == SCORE]
        if not scores:
            return f"{self.run}: not compared with {self.baseline}: hardly an item has a score in both"
        worst = min(scores, key=lambda record: record["delta"] or 0.0)
        moved = len(self.comparison.changes)
        judgement = {
            "worse": f"worse than {self.baseline}: reliably lower, and the loss seen is over {margin:g}",
            "no worse": f"no worse than {self.baseline} (non-inferior at a margin of {margin:g})",
            "undecided": f"neither worse nor shown to be no worse than {self.baseline} by {margin:g}",
        }[self.standing]
        limits = limits_text(worst["delta_low"], worst["delta_high"], 3)
        figures = (
            f"score {worst['first']:.3f} → {worst['second']:.3f},"
            f" difference {signed(worst['delta'], 3)}{limits}"
            f" over {counted(worst['n_items'], 'item')}, {counted(moved, 'score')} moved"
        )
        left_out = (
            f"; {counted(self.changed_items, 'item')} changed since and left out"
            if self.changed_items
            else ""
        )
        lost = len(self.comparison.missing)
        if lost:
            left_out += f"; {counted(lost, 'score')} missing"
            left_out += ", which could hide a regression" if self.hides else ""
        return f"{self.run}: {judgement} ({figures}{left_out})"

    def details(self, most: int = 12) -> str:
        """The compared cells, and the items that broke or were fixed, the first ``most`` of each by name."""
        return comparison_text(self.comparison, self.baseline, self.run, most=most)


def check_regression(
    judged: Run,
    baseline: Path,
    *,
    margin: float,
    missing: MissingAnswers | None = None,
    allow_different_items: bool = False,
    assume: Assumption = "nothing",
) -> RegressionCheck:
    """Hold a run against a committed baseline, at a margin of the score (0.05 is five points).

    Items whose text or truth changed since the baseline was made are left out; items that only one of the two has are
    refused unless ``allow_different_items``. Scores that are missing are bounded, unless ``missing`` is ``drop``.
    Raises ``AnalysisError`` where the baseline is missing or is of other items than the run, with how to make a new
    one.
    """
    _check_margin(margin)
    kept = Baseline.read(baseline)
    changed = len(kept.changed(judged.digests()))
    try:
        compared = compare(
            kept,
            judged,
            margin=margin,
            missing=missing,
            allow_different_items=allow_different_items,
            assume=assume,
        )
    except AnalysisError as error:
        raise AnalysisError(
            f"{baseline}: {error.message}: the baseline is of other tasks, models or items",
            hint="make a new one, or compare what both have: allow_different_items=True",
        ) from error
    return RegressionCheck(compared, baseline.name, judged.name, changed)


def _check_margin(margin: float) -> None:
    if not 0 < margin < 1:
        raise AnalysisError(f"margin {margin}: a share of the score between 0 and 1 is needed", hint="0.05")


def check(
    prompt: str | Path,
    data: Rows,
    *,
    baseline: str | Path,
    margin: float = MARGIN,
    scorer: str | Path | Callable[..., Any] | None = None,
    condition: str | None = None,
    missing: MissingAnswers | None = None,
    allow_different_items: bool = False,
    assume: Assumption = "nothing",
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    announce: Callable[[str], None] = lambda words: None,
    **settings: Any,
) -> RegressionCheck:
    """Did a prompt get worse? The whole prompt, on every row of a table, against what it was; nothing is taken apart.

    ``baseline`` is a file (another prompt, the scores that :func:`save_baseline` wrote, a log), else a run by its name,
    else a git ref, at which the prompt's own file is read; ``RegressionCheck.reference`` says which it was. A prompt is
    asked on the same rows as the one that is judged; of a run with several conditions ``condition`` names the one that
    counts (default: the whole prompt of an ablation, or the only one). ``announce`` is told what the baseline turned
    out to be before anything is asked. ``margin`` is how much lower the score may be.
    ``prompt``, ``data``, ``scorer`` and ``settings`` are those of :func:`pcsuite.api.prompts.ablate`. Rows that were
    asked before are not asked again. Raises ``ConfigError``, ``DataError``, ``PromptError`` or ``AnalysisError`` of
    one line.

        pcs.check("triage.md", "tickets.csv", baseline="main", model="smollm2-135m").standing
    """
    _check_margin(margin)
    request = request_of(prompt, data, scorer, settings)
    read_prompt(request.prompt)  # what is wrong with it is told before git is asked for it
    if request.limit == 1:
        raise ConfigError("--limit 1: one difference has no spread to test it by", hint="give 2 or more")
    reference = find_reference(baseline, request.prompt, request.output_dir)
    if condition is not None and reference.kind != "run":
        raise ConfigError(f"condition {condition}: {reference.words} has one condition", hint="leave it out")
    calls: dict[str, Any] = {"quiet": quiet, "use_cache": use_cache, "executor": executor}
    judging: dict[str, Any] = {
        "margin": margin, "missing": missing, "allow_different_items": allow_different_items, "assume": assume,
    }  # fmt: skip
    if reference.is_prompt:
        earlier_request = _earlier_request(request, reference)
        if _same_prompt(earlier_request, request):
            announce(reference.words)
            empty = Comparison(Table.of(COMPARE, []), margin=margin)
            return RegressionCheck(empty, reference.name, request.prompt.name, reference=reference)
        with told_as_given(earlier_request, prompt=reference.name):
            suites = _profiles([earlier_request, request])
        announce(reference.words)
        earlier, later = (run(suite, **calls) for suite in suites)
        compared = compare(earlier, later, **judging)
        return RegressionCheck(
            compared, reference.name, request.prompt.name, 0, reference, earlier=earlier, later=later
        )
    if reference.kind == "baseline":
        Baseline.read(reference.path)  # what is wrong with it is told before a call is paid for
        (suite,) = _profiles([request])
        announce(reference.words)
        later = run(suite, **calls)
        checked = check_regression(later, reference.path, **judging)
        return replace(checked, run=request.prompt.name, reference=reference, later=later)
    earlier = Run(reference.path)
    pair = f"{_whole_prompt(earlier, condition)}={FULL}"
    (suite,) = _profiles([request])
    announce(reference.words)
    later = run(suite, **calls)
    compared = compare(earlier, later, conditions=[pair], **judging)
    return RegressionCheck(
        compared, reference.name, request.prompt.name, 0, reference, earlier=earlier, later=later
    )


def save_baseline(
    prompt: str | Path,
    data: Rows,
    path: str | Path,
    *,
    scorer: str | Path | Callable[..., Any] | None = None,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    **settings: Any,
) -> Path:
    """Ask a prompt on a table and keep its scores by item in a small file to commit, without any text.

    Takes what :func:`check` takes; raises what it raises, and ``AnalysisError`` where the file cannot be written.
    """
    if Path(path).is_dir() or Path(path).suffix.lower() != ".json":
        raise ConfigError(f"{path}: a baseline is a .json file", hint="baselines/triage.json")
    (suite,) = _profiles([request_of(prompt, data, scorer, settings)])
    asked = run(suite, quiet=quiet, use_cache=use_cache, executor=executor)
    return asked.baseline().write(Path(path), asked.metrics)


def _earlier_request(request: AblationRequest, reference: Reference) -> AblationRequest:
    """The same request of the prompt that the reference is; one of git's is written below ``<output_dir>/given/``."""
    if reference.kind == "prompt":
        return replace(request, prompt=reference.path)
    folder = Path(request.output_dir) / "given" / f"{request.run_name}-{reference.commit[:7]}"
    file = write_given(folder / reference.path.name, reference.text)
    return replace(request, prompt=Path(f"{file}{prompt_file(request.prompt)[1]}"))


def _same_prompt(first: AblationRequest, second: AblationRequest) -> bool:
    """Whether two files say the same to a model; one that cannot be read is told when it is to be asked."""
    try:
        return read_prompt(first.prompt).sent() == read_prompt(second.prompt).sent()
    except PromptError:
        return False


def _profiles(requests: list[AblationRequest]) -> list[Suite]:
    """A profile of each whole prompt, all checked before one of them is asked.

    Each is named by what it asks: an edited prompt is another run, and one that was asked before is not asked again.
    """
    named = []
    blocks = {name for request in requests for name in _blocks(request)} if requests[0].effects else set()
    for request in requests:
        for entry in request.effects:
            for block in entry.split("*"):
                if block not in blocks:
                    raise ConfigError(f"--effect: no block '{block}'", hint=did_you_mean(block, blocks))
        inside = set(_blocks(request)) if request.effects else set()
        effects = {key: value for key, value in request.effects.items() if inside.issuperset(key.split("*"))}
        named.append(replace(request, effects=effects, name=f"{request.run_name}-{_content(request)[:8]}"))
    suites = []
    for request in named:
        with told_as_given(request):
            suites.append(prompt_profile(request))
    return suites


def _blocks(request: AblationRequest) -> list[str]:
    return [block.name for block in read_prompt(request.prompt, request.split, append_input=True).blocks]


def _content(request: AblationRequest) -> str:
    """A hash of all that a request asks: the files' contents, and every setting that is no file."""
    files: Mapping[str, Path] = {
        "prompt": prompt_file(request.prompt)[0],
        "data": Path(request.data),
        "scorer": Path(str(request.scorer).rpartition(":")[0] or "."),
    }
    contents = {name: sha256_hex(path.read_bytes()) for name, path in files.items() if path.is_file()}
    elsewhere = {
        "name",
        "prompt",
        "output_dir",
        "cache_dir",
        "overwrite",
        "budget_usd",
        "budget_tokens",
        "margin",
    }
    slots = {
        name: str(getattr(request, name)) for name in request.__dataclass_fields__ if name not in elsewhere
    }
    return digest([contents, prompt_file(request.prompt)[1], slots])


def _whole_prompt(earlier: Run, condition: str | None) -> str:
    """The condition of a run that a prompt is held against: as named, an ablation's whole prompt, or the only one."""
    there = sorted({key.condition for key in earlier.scores.cells})
    if condition is not None:
        if condition not in there:
            raise ConfigError(
                f"run {earlier.name} has no condition '{condition}'", hint=did_you_mean(condition, there)
            )
        return condition
    if FULL in there:
        return FULL
    if len(there) != 1:
        raise ConfigError(
            f"run {earlier.name} has {len(there)} conditions, and a prompt is held against one",
            hint=f"--condition {there[0]}" if there else "it has no scores",
        )
    return there[0]
