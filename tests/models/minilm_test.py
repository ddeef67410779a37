"""all-MiniLM-L6-v2 through `anydim run` against ONNX Runtime, over many shapes and over real texts.

usage: minilm_test.py [--few]   (ANYDIM names the command; --few: a handful of shapes and texts, for
slow builds) Largest absolute differences allowed: 2e-4 on last_hidden_state at valid positions,
1e-5 on sentence_embedding.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

import compare
import encoder

ROOT = pathlib.Path(__file__).parents[2]
MODEL = ROOT / ".cache/minilm/minilm.onnx"
LIMITS = {"last_hidden_state": 2e-4, "sentence_embedding": 1e-5}
BATCHES = [1, 2, 7, 32]
LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 255, 511, 512]
FEW = [(1, 1), (1, 17), (2, 64), (7, 15), (1, 512)]
VOCABULARY = 30522


def batch_of(rows, length, generator):
    """Random tokens; the first row is full, the others have valid lengths of their own."""
    valid = generator.integers(1, length + 1, rows)
    valid[0] = length
    mask = (numpy.arange(length) < valid[:, None]).astype(numpy.int64)
    ids = generator.integers(0, VOCABULARY, (rows, length)) * mask
    return {
        "input_ids": ids, "attention_mask": mask,
        "token_type_ids": generator.integers(0, 2, (rows, length)) * mask}


def check_shapes(shapes):
    """Number of shapes at which an output differs by more than its limit."""
    peer = encoder.OnnxRuntime(MODEL, threads=2)
    failed = 0
    for rows, length in shapes:
        batch = batch_of(rows, length, numpy.random.default_rng(1000 * rows + length))
        batch = {name: batch[name] for name in peer.inputs}
        ours = compare.run_anydim(os.environ["ANYDIM"], str(MODEL), batch, peer.outputs, threads=2)
        differences = {name: compare.difference(name, ours[name], theirs, batch["attention_mask"])
                       for name, theirs in zip(peer.outputs, peer.run(batch))}
        right = all(differences[name] <= limit for name, limit in LIMITS.items())
        failed += not right
        print(f"batch {rows}, length {length}: {differences}{'' if right else ': over the limit'}",
              flush=True)
    return failed


def check_texts(count):
    with tempfile.TemporaryDirectory() as folder:
        tokens = f"{folder}/tokens.jsonl"
        subprocess.run([
            sys.executable, ROOT / "bench/corpus.py",
            MODEL.with_name("tokenizer.json"), tokens, "--count",
            str(count)], check=True)
        limits = [f"--limit={name}={limit}" for name, limit in LIMITS.items()]
        done = subprocess.run([
            sys.executable, ROOT / "bench/compare.py", MODEL, tokens, "--anydim",
            os.environ["ANYDIM"], "--json", *limits], stdout=subprocess.PIPE, text=True)
        print(f"{count} real texts: {json.loads(done.stdout) if done.stdout else 'no comparison'}")
        return done.returncode != 0


def main():
    few = sys.argv[1:] == ["--few"]
    failed = check_shapes(FEW if few else [(rows, length)
                                           for rows in BATCHES
                                           for length in LENGTHS])
    failed += check_texts(16 if few else 512)
    sys.exit(failed != 0)


main()
