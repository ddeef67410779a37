#!/bin/bash
# usage: gpu_campaign.sh OUT [--first-contact] [--limit SECONDS] [--case SECONDS] [--state FOLDER]
#                        [--variant FOLDER] [--again] [PART...]
#        gpu_campaign.sh OUT --report
#        gpu_campaign.sh --fill GPU...
#        gpu_campaign.sh --check
# Everything that needs a GPU, from a prebuilt slim build (build/slim; ANYDIM_WORKER names another
# worker): climbs a ladder of features, each only if those it needs have passed, then measures what
# passed until the limit (480 seconds), every part in its slice of it, and writes each case into OUT
# as it ends; --first-contact takes one case a rung and four shapes a part, in 240 seconds. What
# ended is kept in the state (build/campaign-state) and not run again by the next command. Parts:
# ladder, primitives, matmul, attention, ragged, models, calls, fit, torch, bert, variants, profile,
# matrix, cpu, sanitizer; all by default. --report writes the tables of a campaign that was killed.
# Without a GPU, --fill compiles for one what a campaign will run, and --check says whether what
# travels (tree, build and data) stays under 60 MiB.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"

# NVRTC and cuBLASLt of PyPI's wheels or of a toolkit, and the driver, where the loader alone does
# not find them.
folders=$(python3 - <<'PYTHON'
import glob
import site
import sys
places = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
found = {folder for place in places for folder in glob.glob(place + "/nvidia/cu1*/lib") + glob.glob(place + "/nvidia/*/lib")}
print(":".join(sorted(found) + glob.glob("/usr/local/cuda/lib64") + glob.glob("/usr/local/nvidia/lib*")))
PYTHON
)
export LD_LIBRARY_PATH="$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ "${1:-}" = --fill ]; then
  # Here the compiler is that of the tests.
  export LD_LIBRARY_PATH="$(printf '%s:' "$root"/.venv/lib/python3*/site-packages/nvidia/cu1*/lib)$LD_LIBRARY_PATH"
  exec python3 "$root/bench/campaign/fill.py" "${@:2}"
fi
exec python3 "$root/bench/campaign/supervisor.py" "$@"
