"""Where finished rows go: into the log, onto the progress display, and into the judgement whether to go on."""

from __future__ import annotations

from pcsuite.errors import ErrorRateError, PcsuiteError
from pcsuite.logging.writer import RunLog
from pcsuite.runners.progress import Progress, Tally
from pcsuite.runners.workbench import FinishedRow

_MIN_CALLS_JUDGED = 50


class Ledger:
    """Takes rows from an executor; once ``stop`` is set no further unit should be begun."""

    def __init__(self, log: RunLog, progress: Progress, stop_on_error_rate: float) -> None:
        self.progress = progress
        self.stop: PcsuiteError | None = None
        self._log = log
        self._most_errors = stop_on_error_rate

    def accept(self, row: FinishedRow) -> None:
        """Log and count one row; a row that is done already is left out."""
        if row.run_id in self._log.index:
            return
        failed = row.error is not None
        self._log.append_line(row.run_id, row.line, done=not failed, prompt=(row.prompt_hash, row.prompt))
        self.progress.advance(
            tokens=row.tokens, cost_usd=row.cost_usd, failed=failed, cache_hit=row.cache_hit
        )
        if row.error is not None:
            self._judge_error_rate(self.progress.tally, row.error)

    def halt(self, reason: PcsuiteError) -> None:
        """Ask for the end of the run; the first reason stays."""
        self.stop = self.stop or reason

    def _judge_error_rate(self, tally: Tally, error: str) -> None:
        if tally.done >= _MIN_CALLS_JUDGED and tally.failed > self._most_errors * tally.done:
            self.halt(
                ErrorRateError(
                    f"stopped: {tally.failed} of {tally.done} calls failed "
                    f"(limits.stop_on_error_rate is {self._most_errors}); the last error was: {error}",
                    hint="finished rows are kept; failed ones are tried again when you run the same command",
                )
            )
