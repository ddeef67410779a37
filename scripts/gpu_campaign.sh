#!/bin/bash
# usage: gpu_campaign.sh OUT [--limit SECONDS] [--case SECONDS] [PART...]
#        gpu_campaign.sh --check
# Everything that needs a GPU, from a prebuilt slim build (build/slim; ANYDIM_WORKER names another worker): climbs a ladder of features, each
# only if those it needs have passed, then measures what passed until the limit (480 seconds; 300 for a first contact) and writes results.json,
# results.md and raw.tar.gz into OUT. Parts: ladder, primitives, models, calls, matmul, attention, ragged, torch, matrix, sanitizer; all by default. --check says whether
# what travels (tree, build and data) stays under 60 MiB, and needs no GPU.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"

# NVRTC and cuBLASLt of PyPI's wheels or of a toolkit, and the driver, where the loader alone does not find them.
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
exec python3 "$root/bench/campaign/supervisor.py" "$@"
