#!/bin/sh
# A prompt gate for any CI: compares two evaluations item by item and fails on a reliable regression.
#
#   BASELINE   file of the evaluation to compare with (results.json of promptfoo, a .eval log, a baseline, …)
#   CANDIDATE  file of the evaluation that is judged
#   MARGIN     smallest loss that matters (default 0.05)
#   COMMENT    where the comment goes, as Markdown (default prompt-gate.md)
#   JUNIT      where test cases go, as JUnit XML (default prompt-gate.xml)
#
# Further words are passed on to pcsuite compare. The status is 0 where it passes, 1 where it fails, 2 on bad input.
set -u
comment=${COMMENT:-prompt-gate.md}
pcsuite compare "${BASELINE:?names no file}" "${CANDIDATE:?names no file}" --margin "${MARGIN:-0.05}" \
  --fail-on-regression --format github --junit "${JUNIT:-prompt-gate.xml}" "$@" > "$comment"
status=$?
cat "$comment"
exit "$status"
