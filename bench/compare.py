#!/usr/bin/env python3
"""Compares Anydim's outputs with ONNX Runtime's in f32 over a token file. Prints each output's
largest absolute difference and the least cosine of its vectors along the last axis.

usage: compare.py MODEL.onnx TOKENS.jsonl [--anydim PROGRAM] [--precision f32|bf16] [--masked-rows
keep|zero] [--batch N]
                  [--order arrival|sorted] [--threads T] [--texts N] [--limit NAME=D ...] [--cosine
                  NAME=C ...] [--json]

An output of shape [batch, seq, ...] is compared at valid positions only: what stands at padding is
no one's promise. Exits 1 if an output's largest difference exceeds its --limit, if its least cosine
is below its --cosine, or if any value is not a number.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

import encoder


def run_anydim(program, model, batch, names, threads, options=()):
    """Runs one batch through `anydim run`, with further options, and returns its outputs by
    name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            program, "run", model, "--output", folder, "--threads",
            str(threads), "--quiet", *options]
        for name, value in batch.items():
            numpy.save(f"{folder}/in.{name}.npy", value)
            command += ["--input", f"{name}={folder}/in.{name}.npy"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"compare.py: anydim run: exit code {done.returncode}: {done.stderr.strip()}")
        return {
            name: numpy.load(
                pathlib.Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy"))
            for name in names}


def at_valid(name, ours, theirs, mask):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        sys.exit(
            f"compare.py: output {name}: expected {theirs.dtype}{theirs.shape}, got {ours.dtype}{ours.shape}"
        )
    if ours.shape[:2] == mask.shape and ours.ndim > 2:
        ours, theirs = ours[mask != 0], theirs[mask != 0]
    return ours.astype(numpy.float64), theirs.astype(numpy.float64)


def difference(name, ours, theirs, mask):
    ours, theirs = at_valid(name, ours, theirs, mask)
    return float(numpy.max(numpy.abs(ours - theirs), initial=0))


def cosine(name, ours, theirs, mask):
    """The least of any two vectors along the last axis."""
    ours, theirs = at_valid(name, ours, theirs, mask)
    lengths = numpy.linalg.norm(ours, axis=-1) * numpy.linalg.norm(theirs, axis=-1)
    return float(numpy.min(numpy.sum(ours * theirs, axis=-1) / lengths, initial=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument(
        "--anydim", default=str(pathlib.Path(__file__).parent.parent / "build/release/bin/anydim"))
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--masked-rows", choices=["keep", "zero"], default="keep")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--order", choices=["arrival", "sorted"], default="sorted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, help="only the first N texts")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=D")
    parser.add_argument("--cosine", action="append", default=[], metavar="NAME=C")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    texts = encoder.read_tokens(arguments.tokens, arguments.texts)
    peer = encoder.OnnxRuntime(arguments.model, arguments.threads)
    options = ("--precision", arguments.precision, "--masked-rows", arguments.masked_rows)
    largest, least = dict.fromkeys(peer.outputs, 0.0), dict.fromkeys(peer.outputs, 1.0)
    for done, batch in enumerate(encoder.batches(texts, arguments.batch, arguments.order)):
        print(
            f"comparing texts {done * arguments.batch + 1} to {min((done + 1) * arguments.batch, len(texts))} of {len(texts)}",
            file=sys.stderr)
        batch = {name: batch[name] for name in peer.inputs}
        ours = run_anydim(arguments.anydim, arguments.model, batch, peer.outputs, arguments.threads,
                          options)
        for name, theirs in zip(peer.outputs, peer.run(batch)):
            largest[name] = numpy.maximum(
                largest[name], difference(name, ours[name], theirs, batch["attention_mask"]))
            least[name] = numpy.minimum(least[name],
                                        cosine(name, ours[name], theirs, batch["attention_mask"]))

    figures = {
        name: {"largest_difference": float(largest[name]), "least_cosine": float(least[name])}
        for name in peer.outputs}
    text = "\n".join(
        f"{name}: difference {each['largest_difference']:.3g}, cosine {each['least_cosine']:.6f}"
        for name, each in figures.items())
    print(json.dumps(figures) if arguments.json else text)
    limits, cosines = ({
        name: float(limit)
        for name, _, limit in (each.rpartition("=")
                               for each in given)}
                       for given in (arguments.limit, arguments.cosine))
    sys.exit(
        any(not (largest[name] <= limits.get(name, float("inf"))
                 and least[name] >= cosines.get(name, -1)) for name in peer.outputs))


if __name__ == "__main__":
    main()
