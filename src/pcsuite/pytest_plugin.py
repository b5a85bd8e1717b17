"""Prompts under test: a fixture that holds a run against a committed baseline. Does nothing until it is used.

    def test_the_triage_prompt(prompt_regression):
        prompt_regression("triage.md", data="tickets.csv", model="smollm2-135m", margin=0.05)

``pytest --pcsuite-update`` writes the baselines instead of comparing with them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pcsuite.api.regression import RegressionCheck

_SUMMARY = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag that writes baselines, and where they lie."""
    group = parser.getgroup("pcsuite", "prompts under test")
    about = "write the baselines of tests that use prompt_regression, instead of comparing with them"
    group.addoption("--pcsuite-update", action="store_true", default=False, help=about)
    about = "folder of baselines, beside the test file unless it is absolute (default: baselines)"
    parser.addini("pcsuite_baselines", about, default="baselines")


@pytest.fixture
def prompt_regression(request: pytest.FixtureRequest, tmp_path: Path) -> PromptRegression:
    """A callable that runs a profile or a prompt and fails the test on a real regression.

    prompt_regression("triage.md", data="tickets.csv", model="smollm2-135m", margin=0.05)

    See :meth:`PromptRegression.__call__`.
    """
    request.config.stash.setdefault(_SUMMARY, [])
    return PromptRegression(request, tmp_path)


class PromptRegression:
    """Runs a profile, or a prompt on a table, and compares it with the baseline of the test."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._request = request
        self._folder = folder
        self._update = bool(request.config.getoption("--pcsuite-update"))
        self._calls = 0

    def __call__(
        self,
        given: str | Path,
        *,
        data: Any = None,
        margin: float = 0.05,
        baseline: str | Path | None = None,
        undecided: Literal["pass", "fail"] = "pass",
        missing: Literal["bound", "drop"] = "bound",
        allow_different_items: bool = False,
        use_cache: bool = False,
        **settings: Any,
    ) -> RegressionCheck | None:
        """Run ``given`` and hold it against its baseline; returns the check, or ``None`` where it wrote the baseline.

        ``given`` is a profile, or with ``data`` (a table) a prompt; files are looked for beside the test first.
        ``settings`` are those of ``pcs.run`` or ``pcs.ablate`` (``model``, ``target``, ``scorer``, ``limit``,
        ``cluster``: columns that say which items are related; a sampled ``regime`` with ``seeds=5`` answers every item
        five times).
        ``margin`` is how much lower a score may be. The test fails where it is reliably lower and the loss seen is over
        the margin, where scores that are missing (calls that failed) could hide that, unless ``missing="drop"``, and
        with ``undecided="fail"`` also where it is not shown to be no worse. A baseline of other items than the run's is
        an error unless ``allow_different_items``. Calls are made anew unless ``use_cache``. The baseline is named after
        the test, or by ``baseline``.
        """
        import pcsuite as pcs
        from pcsuite.api.regression import check_regression
        from pcsuite.api.targets import folder_of
        from pcsuite.errors import PcsuiteError

        path = self._baseline(baseline)
        if not self._update and not path.is_file():  # fails before a call is paid for
            pytest.fail(
                f"no baseline {path}: pytest --pcsuite-update writes it; commit it then", pytrace=False
            )
        self._calls += 1
        problem = ""
        where = self._folder / f"run{self._calls}"
        try:
            if data is not None:
                if "scorer" in settings and isinstance(settings["scorer"], str):
                    settings["scorer"] = self._scorer(settings["scorer"])
                if "target" in settings:
                    beside = folder_of(settings["target"], (self._test_folder, Path.cwd()))
                    settings = {"target_folder": beside, **settings}
                table = self._resolved(data) if isinstance(data, (str, Path)) else data
                settings = {"output_dir": str(where), **settings}
                # A task's items are in the profile's cache; a table's need none.
                if not isinstance(table, str):
                    settings = {"cache_dir": str(where / "cache"), **settings}
                profile: Any = pcs.prompt(self._resolved(given), table, **settings)
                settings = {}
            else:
                profile = self._resolved(given)
                settings = {"output_dir": str(where), **settings}
            run = pcs.run(profile, quiet=True, use_cache=use_cache, **settings)
            if self._update:
                run.baseline().write(path, run.metrics)
                self._report(f"baseline written: {path}")
                return None
            check = check_regression(
                run, path, margin=margin, missing=missing, allow_different_items=allow_different_items
            )
        except PcsuiteError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:  # outside the handler: pytest would show the error twice
            pytest.fail(problem, pytrace=False)
        failed = check.standing == "worse" or check.hides
        if failed or (check.standing == "undecided" and undecided == "fail"):
            pytest.fail(f"{check.sentence()}\n\n{check.details()}", pytrace=False)
        self._report(check.sentence())
        if check.reach:
            self._report(f"  {check.reach}")
        return check

    def _baseline(self, baseline: str | Path | None) -> Path:
        folder = self._test_folder / str(self._request.config.getini("pcsuite_baselines"))
        if baseline is None:
            name = re.sub(r"[^\w.-]+", "_", self._request.node.name).strip("_")
            suffix = f"_{self._calls + 1}" if self._calls else ""
            baseline = f"{self._request.path.stem}__{name}{suffix}.json"
        return folder / baseline

    @property
    def _test_folder(self) -> Path:
        return self._request.path.parent

    def _resolved(self, name: str | Path) -> str | Path:
        """A file beside the test where there is one, else what was given: a bundled profile, a task's id, a text."""
        beside = self._test_folder / name if "\n" not in str(name) else Path()
        return beside if beside.is_file() else name

    def _scorer(self, reference: str) -> str:
        file, colon, function = reference.rpartition(":")
        return f"{self._resolved(file)}{colon}{function}" if file.endswith(".py") else reference

    def _report(self, line: str) -> None:
        self._request.config.stash[_SUMMARY].append(line)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How every checked prompt stands, at the end."""
    lines = config.stash.get(_SUMMARY, [])
    if lines:
        terminalreporter.section("prompts against their baselines")
        for line in lines:
            terminalreporter.write_line(line)
