#!/bin/bash
# usage: python_env.sh [FOLDER REQUIREMENTS]
# Makes FOLDER (default .venv) with the pinned, hash-checked PyPI packages of REQUIREMENTS (default
# tests/requirements.txt); reuses it while that file is unchanged. Prints nothing but its steps; the
# interpreter is FOLDER/bin/python.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.venv} requirements=${2:-tests/requirements.txt}

wanted=$(sha256sum "$requirements")
if [ "$(cat "$folder/requirements.sha256" 2>/dev/null || true)" = "$wanted" ]; then
  echo "python: $folder is up to date"
  exit 0
fi
echo "python: making $folder with the packages of $requirements"
python3 -m venv --clear "$folder"
"$folder/bin/python" -m pip install --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
echo "$wanted" > "$folder/requirements.sha256"
