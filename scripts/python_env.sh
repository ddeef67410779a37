#!/bin/bash
# usage: python_env.sh
# Makes .venv with the pinned, hash-checked PyPI packages of tests/requirements.txt; reuses it while that file is
# unchanged. Prints nothing but its steps; the interpreter is .venv/bin/python.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=$(sha256sum tests/requirements.txt)
if [ "$(cat .venv/requirements.sha256 2>/dev/null || true)" = "$wanted" ]; then
  echo "python: .venv is up to date"
  exit 0
fi
echo "python: making .venv with the packages of tests/requirements.txt"
python3 -m venv --clear .venv
.venv/bin/python -m pip install --disable-pip-version-check --no-deps --require-hashes -r tests/requirements.txt
echo "$wanted" > .venv/requirements.sha256
