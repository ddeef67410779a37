#!/bin/bash
# Checks the tree without building it: format, layering, file sizes, tests for every row of the
# tables, READMEs. Says what is wrong and where; fails if anything is.
cd "$(dirname "$0")/.." || exit 1
failed=0
scripts/format.sh --check || { echo "check: format differs; run scripts/format.sh" >&2; failed=1; }
python3 scripts/check_tree.py || failed=1
[ $failed -ne 0 ] || echo "check: format, layering, sizes, tables and READMEs are in order"
exit $failed
