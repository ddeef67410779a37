#!/bin/bash
# usage: test.sh [PRESET]
#        test.sh --quick [PRESET]: what a contributor runs before each commit: installs nothing,
#                                  builds, and runs the tests that are not labelled slow
#        test.sh fuzz [SECONDS]:   the readers of others' bytes alone, SECONDS each
#                                  (scripts/fuzz_readers.sh)
# The whole gate, as people and CI run it: installs what is missing, checks the tree, builds the
# preset (default release) into build/PRESET and runs every test; with the preset release also those
# of the slim build, whose sources the compiler cache mostly has by then, and twenty seconds of
# fuzzing for each reader of others' bytes. The exit code is 0 only if all of it passed. A finding
# of the check does not keep the tests from running.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
if [ "${1:-}" = --quick ]; then
  preset=${2:-release}
  scripts/check.sh
  cmake --preset "$preset"
  cmake --build "build/$preset" -j "$jobs"
  exec ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" --no-tests=error --label-exclude slow
fi
preset=${1:-release}

scripts/install_packages.sh --gate
[ "$preset" != fuzz ] || exec scripts/fuzz_readers.sh "${2:-60}"
scripts/python_env.sh
if [ "$preset" = release ]; then
  scripts/python_env.sh .cache/ray tests/python/ray/requirements.txt
  scripts/python_env.sh .cache/docs docs/requirements.txt
fi
scripts/fetch_minilm.sh
checked=0
scripts/check.sh || checked=$?

echo "build: preset $preset into build/$preset"
python=()
[[ "$preset" != @(release|asan) ]] || python=(-DANYDIM_PYTHON=ON)
cmake --preset "$preset" -DANYDIM_REQUIRE_CUDA_TOOLS=ON "${python[@]}"
cmake --build "build/$preset" -j "$jobs"

export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-19)}
export TSAN_OPTIONS="external_symbolizer_path=$ASAN_SYMBOLIZER_PATH${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
[ "$checked" -eq 0 ] || echo "check: failed, see above; running the tests all the same" >&2
tested=0
ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" --no-tests=error || tested=$?
slim=0 fuzzed=0
if [ "$preset" = release ]; then
  echo "build: preset slim into build/slim"
  cmake --preset slim
  cmake --build build/slim -j "$jobs" --target anydim campaign_worker
  ANYDIM="$PWD/build/slim/bin/anydim" python3 tests/tools/slim_test.py || slim=$?
  scripts/gpu_campaign.sh --check || slim=$?
  scripts/fuzz_readers.sh 20 || fuzzed=$?
fi
[ "$checked" -eq 0 ] && [ "$tested" -eq 0 ] && [ "$slim" -eq 0 ] && [ "$fuzzed" -eq 0 ]
