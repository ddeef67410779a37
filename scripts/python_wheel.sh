#!/bin/bash
# usage: python_wheel.sh [FOLDER]
# Builds the Python package's wheel into FOLDER (default build/wheels): self-contained, with
# protobuf's runtime library inside, and named for the systems that it runs on. Needs .venv
# (scripts/python_env.sh). The last line printed is its path.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/wheels}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
export PATH="$PWD/.venv/bin:$PATH"

python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$built" . >&2
mkdir -p "$folder"
rm -f "$folder"/anydim-*.whl
auditwheel repair --plat manylinux_2_36_x86_64 -w "$folder" "$built"/anydim-*.whl >&2
echo "$folder"/anydim-*.whl
