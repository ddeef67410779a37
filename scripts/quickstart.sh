#!/bin/bash
# usage: quickstart.sh
# From a fresh Debian 12 to a real model's figures: installs packages, builds, fetches
# all-MiniLM-L6-v2, runs it over real texts with Anydim and with ONNX Runtime in turns, and prints
# both. A second run reuses all that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
model=.cache/minilm/minilm.onnx
tokens=.cache/minilm/tokens.jsonl
anydim=build/release/bin/anydim
python=.venv/bin/python
threads=$(nproc)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

step() { printf '\n== %s\n' "$*"; }

step "1 of 6: Debian packages (compiler, LLVM 19, libraries)"
scripts/install_packages.sh --build

step "2 of 6: building the anydim command (release)"
cmake --preset release > "$results/configure.log" 2>&1 || { cat "$results/configure.log" >&2; exit 1; }
cmake --build build/release --target anydim -j "$threads"

step "3 of 6: a Python environment with ONNX Runtime and a tokenizer"
scripts/python_env.sh

step "4 of 6: the model, and a file of real texts from Debian's fortunes as token ids"
scripts/fetch_minilm.sh
if [ "$tokens" -nt bench/corpus.py ]; then
  echo "texts: $tokens is up to date"
else
  $python bench/corpus.py .cache/minilm/tokenizer.json "$tokens"
fi

step "5 of 6: comparing the two engines' outputs, then their speed on $threads threads, in turns"
$python bench/compare.py "$model" "$tokens" --anydim "$anydim" --texts 128 --threads "$threads" --json > "$results/differences.json"
head -n 1 "$tokens" > "$results/one.jsonl"
"$anydim" bench "$model" --tokens "$results/one.jsonl" --batch 1 --order arrival --repeat 1 --threads "$threads" \
  --cache-dir "$results/cache" --json > "$results/cold.json"
$python bench/peers.py "$model" "$tokens" --anydim "$anydim" --texts 128 --rounds 1 --repeat 2 --threads "$threads" \
  --json > "$results/peers.json"

step "6 of 6: all-MiniLM-L6-v2, 128 real texts, f32, $threads threads"
$python bench/quickstart_table.py "$results/peers.json" "$results/cold.json" "$results/differences.json"
