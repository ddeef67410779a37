#!/bin/bash
# usage: fuzz_readers.sh [SECONDS] [READER...]
# Builds the preset fuzz and gives each reader of others' bytes (tests/fuzz/readers; default: all of
# them) to libFuzzer for SECONDS (default 60), as many at a time as there are processors. Starts
# from the seeds in the tree and from what earlier runs found worth keeping, in build/fuzz/corpus.
# Inputs that bring out a fault lie in build/fuzz/findings; then the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
readers=("$@")
[ ${#readers[@]} -gt 0 ] || readers=(
  onnx text loops placed program npy tensor tokens kernel database export)

cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$(nproc)" --target fuzz_readers
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-19)}
# The databases that readers open are written to memory: a disk that syncs late looks like an input
# that hangs.
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi

fuzz() {
  local corpus=build/fuzz/corpus/$1 findings=build/fuzz/findings/$1 log=build/fuzz/$1.log
  mkdir -p "$corpus" "$findings"
  if build/fuzz/bin/fuzz_readers --reader="$1" -max_total_time="$2" -timeout=30 \
      -rss_limit_mb=4096 -malloc_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
      -artifact_prefix="$findings/" "$corpus" "tests/fuzz/readers/seeds/$1" >"$log" 2>&1; then
    echo "fuzz: $1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $2 s, no fault"
  else
    echo "fuzz: $1: a fault, see $log and $findings:" >&2
    grep -m1 -A25 -E 'ERROR|runtime error|a fault of ours|libFuzzer: ' "$log" >&2 || tail -n 30 "$log" >&2
    return 1
  fi
}
export -f fuzz
printf '%s\n' "${readers[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'fuzz "{}" '"$seconds"
