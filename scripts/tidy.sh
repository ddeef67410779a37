#!/bin/bash
# usage: tidy.sh [PRESET] [FILE...]
# Runs clang-tidy over the sources (all, or those whose path matches a FILE) with the compile
# commands of a built preset (default release). Takes minutes for the whole tree, so it is no part
# of scripts/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
[ -f "build/$preset/compile_commands.json" ] || cmake --preset "$preset"
patterns=("$@")
[ $# -gt 0 ] || patterns=("$PWD/(?!build/|\\.venv/)")
run-clang-tidy-19 -quiet -p "build/$preset" -j "$(nproc)" "${patterns[@]}"
