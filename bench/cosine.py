#!/usr/bin/env python3
"""Cosines between a model's sentence embeddings and those of the same model compiled otherwise.

usage: cosine.py MODEL TOKENS [--output NAME] [--anydim PROGRAM] [--batch N] -- OPTION...

TOKENS has a text a line, ids as a JSON list, as bench/corpus.py writes them. MODEL takes input_ids,
attention_mask and, where it has them, token_type_ids. Texts of like length go together. Both runs
take --masked-rows zero; the second also takes the OPTIONs, e.g. --precision int8.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy
import onnx

HERE = pathlib.Path(__file__).parent


def embeddings(arguments, texts, inputs, options):
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    result = [None] * len(texts)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(order), arguments.batch):
            chosen = order[start:start + arguments.batch]
            length = max(len(texts[i]) for i in chosen)
            ids = numpy.zeros((len(chosen), length), numpy.int64)
            mask = numpy.zeros_like(ids)
            for row, i in enumerate(chosen):
                ids[row, :len(texts[i])] = texts[i]
                mask[row, :len(texts[i])] = 1
            values = {
                "input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            command = [arguments.anydim, "run", arguments.model, "--quiet", "--output", folder,
                       "--outputs", arguments.output, "--masked-rows", "zero",
                       "--cache-dir", f"{folder}/kernels", *options]
            for name in inputs:
                numpy.save(f"{folder}/{name}.npy", values[name])
                command += ["--input", f"{name}={folder}/{name}.npy"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for i, embedding in zip(chosen, numpy.load(f"{folder}/{arguments.output}.npy")):
                result[i] = embedding / numpy.linalg.norm(embedding)
    return numpy.stack(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument("options", nargs="*")
    parser.add_argument("--output", default="sentence_embedding")
    parser.add_argument("--anydim", default=str(HERE.parent / "build/release/bin/anydim"))
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    texts = [json.loads(line) for line in open(arguments.tokens, encoding="utf-8")]
    model = onnx.load(arguments.model, load_external_data=False)
    inputs = [entry.name for entry in model.graph.input]
    plain = embeddings(arguments, texts, inputs, [])
    other = embeddings(arguments, texts, inputs, arguments.options)
    cosines = (plain * other).sum(axis=1)
    print(f"{len(texts)} texts, cosine mean {cosines.mean():.6f}, least {cosines.min():.6f}")


if __name__ == "__main__":
    main()
