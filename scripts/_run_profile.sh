#!/usr/bin/env bash
# What run_profile_A.sh and run_profile_B.sh share: _run_profile.sh PROFILE ARGUMENTS…
set -euo pipefail
cd "$(dirname "$0")/.."
profile=configs/$1.yaml
shift

python=${PYTHON:-}
if [ -z "$python" ]; then
  if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
fi
if ! "$python" -c 'import pcsuite' 2> /dev/null; then
  echo "$0: pcsuite is not installed for $python: pip install -e '.[hf,eval]', or name another interpreter in PYTHON" >&2
  exit 2
fi

hub_answers() {
  case "${HF_HUB_OFFLINE:-}" in 1 | true | TRUE | yes | YES) return 1 ;; esac
  [ -n "${HTTPS_PROXY:-${https_proxy:-${ALL_PROXY:-${all_proxy:-}}}}" ] && return 0
  "$python" -c '
import os, socket, urllib.parse
place = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
socket.create_connection((place.hostname, place.port or 443), timeout=5).close()' 2> /dev/null
}

for word in "$@"; do
  case "$word" in -h | --help) PCS_EXPORT=no ;; esac
done
if [ "${PCS_EXPORT:-yes}" != no ]; then
  export_missing=("$python" -m pcsuite.cli export-datasets --config "$profile" --missing)
  if [ -d originals ]; then
    "${export_missing[@]}" --from originals || echo "note: what is missing is stood in for by bundled samples" >&2
  elif hub_answers; then
    "${export_missing[@]}" || echo "note: what is missing is stood in for by bundled samples" >&2
  else
    echo "note: no originals/ and no hub: datasets that were not exported are stood in for by bundled samples" >&2
  fi
fi

exec "$python" -m pcsuite.cli run --all --config "$profile" "$@"
