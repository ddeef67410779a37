#!/bin/bash
# usage: python_peers.sh [--quick]
# The Python package beside torch and sentence-transformers, which are several GB of PyPI packages
# and so no part of scripts/test.sh: makes .cache/python-peers, builds the package (release), runs
# tests/python/peers over it, and measures encode() with Anydim, torch and ONNX Runtime in turns
# (not with --quick).
set -euo pipefail
cd "$(dirname "$0")/.."
python=.cache/python-peers/bin/python

scripts/install_packages.sh
scripts/python_env.sh
scripts/python_env.sh .cache/python-peers tests/python/peers/requirements.txt
scripts/fetch_minilm.sh
cmake --preset release -DANYDIM_PYTHON=ON > /dev/null
cmake --build build/release --target _anydim -j "$(nproc)"
export PYTHONPATH="$PWD/build/release/python:$PWD/tests/python:$PWD/bench" PYTHONDONTWRITEBYTECODE=1
$python -m pytest -q -p no:cacheprovider tests/python/peers
[ "${1:-}" = --quick ] || $python bench/python_peers.py --texts 512 --rounds 5
