#!/usr/bin/env bash
# Profile A from nothing to its report: export what is missing, run, perturb (promptbench), HELM where the profile enables
# it, report. Every step goes on where it was stopped, so the same command ends an interrupted run.
#
#   scripts/run_profile_A.sh                                        the whole profile
#   scripts/run_profile_A.sh --limit 2 --models smollm2-135m        a rehearsal on the embedded model: 908 rows, about
#                                                                   an hour of CPU time, so half an hour on two cores
#   scripts/run_profile_A.sh --tasks gsm8k --set limits.max_cost_usd=5
#
# Arguments are handed on to `pcsuite run --all`. PYTHON names the interpreter (default: that of .venv here, else python3).
# Datasets come from originals/ (scripts/download_datasets.sh) where that is there, else from the Hugging Face hub; what
# cannot be had is stood in for by the bundled samples, and the report says so. PCS_EXPORT=no leaves the export out.
set -euo pipefail
exec "$(dirname "$0")/_run_profile.sh" profile_A "$@"
