"""Field-level truth for structured extraction: read the truth, compare a record with it, score, report, track.

Nothing here asks a model, except ``improve``: every judgement follows from a mapping file. The parts, in the order of
use: ``draft`` (a first mapping), ``mapping`` (which fields exist and how they compare), ``value_types`` (dates, money
and the like), ``truth`` (reading ``ground_truth.csv`` and its relatives), ``keys`` (what tells items of a list apart),
``compare`` (field by field), ``record_sets`` (many records in one file), ``scores`` and ``statistics`` (counts and
intervals), ``results`` (an extraction scored, as a document), ``store`` (iterations on disk, trends), ``report`` (HTML
files), ``evaluator`` (the suite's task), ``improve`` (a better extraction prompt).
"""
