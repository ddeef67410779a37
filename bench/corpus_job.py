#!/usr/bin/env python3
"""A corpus embedded by `python -m anydim.ray`: one worker with all processors beside two that share
them, and two of which one is killed in the middle. Checks that every text is there once and that
all three give the same.

usage: PYTHONPATH=build/release/python .cache/ray/bin/python corpus_job.py MODEL TOKENIZER.json
[--texts N] [--only one,two,killed]

The texts are the quotations of Debian's `fortunes` in a fixed order, again from the first where
they end. Seconds are the whole command's: start, compilation and writing.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy
import pyarrow.parquet

from ray_workers import ray_workers
from texts import FORTUNES, quotations, shuffled

WORKERS = {"one": 1, "two": 2, "killed": 2}


def kill_in_the_middle(job, folder, count, killed):
    while job.poll() is None and not killed:
        written = sum(
            pyarrow.parquet.read_metadata(part).num_rows for part in folder.glob("part-*"))
        if written >= count // 2 and (there := ray_workers()):
            os.kill(there[0], signal.SIGKILL)
            killed.append(there[0])
        time.sleep(0.2)


def embedded(name, corpus, count, arguments, place):
    """Runs the job; what it said at its end, its seconds, and the embeddings in the order of the
    texts."""
    folder = place / name
    words = [
        sys.executable, "-m", "anydim.ray", corpus, "--output", folder, "--model", arguments.model,
        "--tokenizer", arguments.tokenizer]
    words += ["--workers", WORKERS[name], "--cache-dir", place / "kernels"]
    began, killed = time.perf_counter(), []
    job = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    killer = threading.Thread(target=kill_in_the_middle, args=(job, folder, count, killed))
    if name == "killed":
        killer.start()
    out, errors = job.communicate()
    seconds = time.perf_counter() - began
    if job.returncode != 0:
        sys.exit(f"corpus_job.py: {name}: exit code {job.returncode}\n{errors}")
    if name == "killed":
        killer.join()
        assert killed, "no worker was there to be killed"
    table = pyarrow.parquet.read_table(folder, columns=["id", "embedding"])
    assert table["id"].to_pylist() == list(range(count)), f"{name}: each text once, in order"
    values = table["embedding"].combine_chunks().flatten().to_numpy()
    progress = [line for line in errors.splitlines() if re.search(r"calls p50", line)]
    said = [line for line in out.splitlines() if "texts embedded" in line]
    return said[-1], progress[-1] if progress else "", seconds, values.reshape(count, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokenizer")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--only", default="one,two,killed", help="jobs to run, with commas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anydim_corpus_") as folder:
        place = pathlib.Path(folder)
        texts = shuffled(quotations(FORTUNES), 7)
        with open(place / "corpus.jsonl", "w") as stream:
            for number in range(arguments.texts):
                stream.write(json.dumps({"id": number, "text": texts[number % len(texts)]}) + "\n")
        print(f"{arguments.texts} texts, {len(texts)} of them different")
        first = None
        for name in arguments.only.split(","):
            said, progress, seconds, values = embedded(name, place / "corpus.jsonl",
                                                       arguments.texts, arguments, place)
            first = values if first is None else first
            print(
                f"{name}: {seconds:.1f} s, {arguments.texts / seconds:.0f} texts/s; largest difference from the first job {numpy.abs(values - first).max():.1e}"
            )
            print(f"  {said}\n  {progress}", flush=True)


main()
