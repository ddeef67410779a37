#!/usr/bin/env python3
"""First results and memory: processes of anydim and of ONNX Runtime from their start to a result.

usage: starts.py MODEL [SHAPE] [--rounds R] [--threads T] [--anydim PROGRAM ...] [-- OPTION...]

SHAPE (1x16) and inputs are those of beside.py. Each round starts every program with an empty cache
of kernels, again with the cache that this left, and a Python that imports onnxruntime, loads and
runs the model. Printed are medians of seconds from start to exit and of the largest resident size.
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy
import onnxruntime

from encoder import made_up, parser_beside, programs_of, shape_of

PEER = """
import sys, numpy, onnxruntime
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1], settings)
with numpy.load(sys.argv[2]) as feeds:
    session.run(None, dict(feeds))
"""
# Runs its arguments; prints the seconds, and the largest resident size in KiB, which a child of
# this large process would inherit.
MEASURED = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measure(command):
    """Seconds and MB of a process."""
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], check=True,
                          stdout=subprocess.PIPE, text=True)
    seconds, kibibytes = done.stdout.split()
    return float(seconds), int(kibibytes) / 1024


def main():
    parser = parser_beside(__doc__)
    parser.add_argument("shape", nargs="?", default="1x16")
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_intermixed_args()
    programs = programs_of(arguments)
    feeds = made_up(
        onnxruntime.InferenceSession(arguments.model).get_inputs(), shape_of(arguments.shape))
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.savez(folder / "feeds.npz", **feeds)
        given = []
        for entry, array in feeds.items():
            numpy.save(folder / f"{entry}.npy", array)
            given += ["--input", f"{entry}={folder / entry}.npy"]
        threads = str(arguments.threads)
        for turn in range(arguments.rounds):
            for program in programs:
                command = [
                    program, "run", arguments.model, "--quiet", "--threads", threads, *given,
                    *arguments.options, "--cache-dir",
                    str(folder / f"cache{turn}{programs.index(program)}")]
                for cache in ("empty", "warm"):
                    rows.setdefault(f"{program}, {cache} cache", []).append(measure(command))
            peer = [sys.executable, "-c", PEER, arguments.model, str(folder / "feeds.npz"), threads]
            rows.setdefault("ONNX Runtime", []).append(measure(peer))
    for name, taken in rows.items():
        seconds, size = (statistics.median(column) for column in zip(*taken))
        print(f"{name}: {seconds:.3f} s, {size:.0f} MB")


if __name__ == "__main__":
    main()
