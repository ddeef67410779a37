#!/bin/bash
# usage: test.sh [PRESET]
# The whole gate, as people and CI run it: installs what is missing, checks the tree, builds the preset (default release)
# into build/PRESET and runs every test. The last line is ctest's; the exit code is 0 only if all of it passed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

scripts/install_packages.sh
scripts/python_env.sh
scripts/fetch_minilm.sh
scripts/check.sh
echo "build: configuring preset $preset"
cmake --preset "$preset" > "configure.log" 2>&1 || { cat configure.log >&2; exit 1; }
rm configure.log
cmake --build "build/$preset" -j "$(nproc)"

export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-19)}
ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" --no-tests=error
