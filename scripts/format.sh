#!/bin/bash
# usage: format.sh [--check]
# Formats every C++ file of the tree in place; with --check only says which ones differ, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror)
find . -name '.?*' -prune -o -name 'build*' -prune -o \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 -r -n 16 -P "$(nproc)" clang-format-19 "${mode[@]}"
