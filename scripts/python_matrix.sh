#!/usr/bin/env bash
# The quick tests under each version of Python that is on this machine: python_matrix.sh "3.10 3.11" MARKS [TESTS …]
# An interpreter is looked for on the path, then among those of pyenv and uv. Versions that are not there are passed over.
set -uo pipefail
cd "$(dirname "$0")/.."
versions=$1 marks=$2
shift 2

find_python() {
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python "$(uv python find "$1" 2>/dev/null)"; do
    if [ -n "$candidate" ] && "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

failed=()
for version in $versions; do
  environment=.venv-$version
  python=$(find_python "$version")
  if [ -z "$python" ]; then
    echo "Python $version: not on this machine, left out"
    continue
  fi
  if [ ! -e "$environment/.ready" ] || [ pyproject.toml -nt "$environment/.ready" ]; then
    "$python" -m venv "$environment" \
      && "$environment/bin/pip" install --quiet --upgrade pip \
      && "$environment/bin/pip" install --quiet --editable '.[local,openai,eval,stats,view,retrieval,dev]' \
      && touch "$environment/.ready" || { echo "Python $version: could not be set up"; failed+=("$version"); continue; }
  fi
  echo "Python $version"
  OMP_NUM_THREADS=1 "$environment/bin/python" -m pytest -q -n "${JOBS:-2}" --dist worksteal --hypothesis-profile quick \
    -p no:cacheprovider -m "$marks" "$@" || failed+=("$version")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed under: ${failed[*]}"; exit 1; }
