#!/bin/bash
# usage: format.sh [--check] [FILE...]
# Formats the C, C++ and CUDA files named, or every one of the tree, in place; with --check only
# names those that differ, and fails. What a generator must write stays as it writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
check=
[ "${1:-}" != --check ] || { check=1; shift; }

files() {
  if [ $# -gt 0 ]; then
    printf '%s\0' "$@"
  else
    find . -name '.?*' -prune -o -path './build*' -prune -o -name golden -prune -o \
      -regex '.*\.\(h\|hpp\|cpp\|c\|cu\|cuh\|def\)' -printf '%P\0'
  fi
}
if [ -z "$check" ]; then
  files "$@" | xargs -0 -r -n 16 -P "$(nproc)" clang-format-19 -i
  exit
fi
differing=$(files "$@" | xargs -0 -r -n 1 -P "$(nproc)" sh -c 'clang-format-19 "$0" | cmp -s - "$0" || echo "$0"' | sort)
[ -z "$differing" ] || { echo "$differing" | sed 's/$/: not formatted as .clang-format says/' >&2; exit 1; }
