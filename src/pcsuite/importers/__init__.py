"""Logs of other evaluation tools, read sample by sample and written as rows of our own log.

``base`` says what a format gives; ``inspect_ai_log`` and ``lm_eval_samples`` read the two formats without the
tools themselves; ``import_run`` writes the rows. A further format registers in the group ``pcsuite.importers``.
"""

from pcsuite.importers.base import FORMATS, ImportedSample, LogHeader, SourceLog

__all__ = ["FORMATS", "ImportedSample", "LogHeader", "SourceLog"]
