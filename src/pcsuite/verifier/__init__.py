"""Field-level truth for structured extraction: read the truth, compare a record with it, score, report, track.

Nothing here asks a model, except ``improve``: every judgement follows from a mapping file. The parts, in the order of
use: ``mapping`` (which fields exist and how they compare), ``truth`` (reading ``ground_truth.csv``), ``compare`` (field
by field), ``scores`` (counts and intervals), ``results`` (an extraction scored, as a document), ``store`` (iterations
on disk, trends), ``report`` (HTML files), ``evaluator`` (the suite's task), ``improve`` (a better extraction prompt).
"""
