#!/usr/bin/env python3
"""SentenceTransformer.encode over real texts with Anydim, torch and ONNX Runtime behind it, in
turns: tokens a second, texts a second, and how far embeddings are from torch's.

usage: python_peers.py [--texts N] [--rounds R] [--batch B] [--threads T] [--json]   (run by
scripts/python_peers.sh)
"""
import argparse
import json
import os
import statistics
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy
import torch
from tokenizers import Tokenizer

import minilm


def least_cosine(one, other):
    one, other = one.astype("float64"), other.astype("float64")
    return ((one * other).sum(1) / numpy.linalg.norm(one, axis=1) /
            numpy.linalg.norm(other, axis=1)).min()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    texts = minilm.texts_of_fortunes(options.texts)
    tokenizer = Tokenizer.from_file(str(minilm.TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(minilm.MAX_TOKENS)
    tokens = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))

    with tempfile.TemporaryDirectory() as folder:
        engines = {
            "anydim": minilm.with_anydim(threads=options.threads),
            "anydim, ragged": minilm.with_anydim(threads=options.threads, ragged=True),
            "anydim, ragged, bf16": minilm.with_anydim(threads=options.threads, ragged=True,
                                                       precision="bf16"),
            "torch": minilm.with_torch(folder),
            "onnxruntime": minilm.with_onnx_runtime(options.threads)}
        embeddings = {name: engine.encode(texts, batch_size=options.batch)
                      for name, engine in engines.items()}
        time.sleep(2)  # kernels of the sizes met are compiled beside the calls
        seconds = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, engine in engines.items():
                began = time.perf_counter()
                engine.encode(texts, batch_size=options.batch)
                seconds[name].append(time.perf_counter() - began)

    rows = []
    for name, times in seconds.items():
        middle = statistics.median(times)
        rows.append({
            "engine": name, "tokens_per_s": tokens / middle, "texts_per_s": len(texts) / middle,
            "least_cosine": least_cosine(embeddings[name], embeddings["torch"])})
    if options.json:
        print(
            json.dumps({
                "texts": len(texts), "tokens": tokens, "batch": options.batch,
                "threads": options.threads, "engines": rows}))
        return
    print(
        f"{len(texts)} texts, {tokens} tokens, batches of {options.batch}, {options.threads} threads; medians of {options.rounds} rounds in turns"
    )
    for row in rows:
        print(
            f"{row['engine']:<22} {row['tokens_per_s']:>8.0f} tokens/s {row['texts_per_s']:>7.1f} texts/s   least cosine to torch {row['least_cosine']:.7f}"
        )


if __name__ == "__main__":
    main()
