#!/bin/bash
# usage: docs_site.sh [FOLDER]
# Builds the documentation site into FOLDER (default build/site); a broken link or a name that the
# reference lacks is an error. Needs the Python package as built in build/release
# (-DANYDIM_PYTHON=ON), or where ANYDIM_PACKAGE says: the reference is made of its docstrings.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/site}")
scripts/python_env.sh .cache/docs docs/requirements.txt
NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 \
  .cache/docs/bin/python -m mkdocs build --strict --site-dir "$folder"
echo "docs: $folder/index.html"
