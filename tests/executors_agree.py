#!/usr/bin/env python3
"""Runs calls on every executor of `anydim run` and compares: the reference executor is the oracle,
and makes every check that the others make.

Calls come from text tests (their cases that `run`), from tests/ir/ops (cases with inputs) and from
ONNX's node tests. The virtual machine and the reference executor must end with the same exit code,
the same first line on standard error where they refuse, and equal results: integers exactly, floats
within a tolerance. So must the program for the inputs' shapes alone (`--executor graph`), where its
gate lets it in.

usage: executors_agree.py --anydim ANYDIM [--nodes FOLDER] [--jobs N] [--list] PATH... Prints what
disagrees and the counts; exits 1 where anything did. Needs numpy, and onnx for node tests.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import processors
from tensor_text import parse_tensor, write_npy

# First words of a call's name: why its executors differ.
KNOWN = {
    "attention.test:9": "attention of f16 operands is not compiled; the passes widen it",
    "if.test:5": "the graph executor's shapes decide what a block that does not run demands, which is refused when compiled",
    "dyn.reshape.test:8": "an extent of 0 in place of its symbol no longer tells what a -1 beside it is",
    "call.test:11": "the reference executor nests calls on the thread's stack, 1,000 deep",
    "control.test:6": "the reference executor nests calls on the thread's stack, 1,000 deep"}
EXECUTORS = ("vm", "graph", "reference")
GATE = "static programs only"


class Call:
    """A model, options, and what each input is made from: a tensor as text, or a file."""

    def __init__(self, name, model, inputs, options=()):
        self.name, self.model, self.inputs, self.options = name, model, inputs, list(options)


def text_cases(path):
    for number, part in enumerate(re.split(r"^=====\n", path.read_text(), flags=re.MULTILINE), 1):
        head = re.split(r"^--- ", part, flags=re.MULTILINE)[0]
        marks = collections.defaultdict(list)
        for line in head.splitlines():
            if match := re.match(r"// (RUN:|INPUT) (.*)", line):
                marks[match[1]].append(match[2].strip())
        if re.search(r"^policy ", head, flags=re.MULTILINE):
            continue  # a choice of kernels, of which the reference executor has none
        options = (marks["RUN:"] or ["run"])[0].split()
        inputs = [mark.partition(" = ")[::2] for mark in marks["INPUT"]]
        takes_inputs = re.search(r"^fn @main\(\s*\)", head, flags=re.MULTILINE) is None
        if options[0] != "run" or "%s" in head or "%d" in (marks["RUN:"] or [
                ""])[0] or takes_inputs and not inputs:
            continue
        if {"--executor", "--help", "--record", "--output", "--outputs", "--json", "--policy"
            } & set(options):
            continue
        yield Call(f"{path}:{number}", head, [(name, parse_tensor(text)) for name, text in inputs],
                   options[1:])


def node_cases(folder):
    import onnx
    for test in sorted(folder.iterdir()):
        data = test / "test_data_set_0"
        files = sorted(data.glob("input_*.pb"),
                       key=lambda path: int(re.findall(r"\d+", path.name)[0]))
        if not (test / "model.onnx").exists():
            continue
        model = onnx.load(test / "model.onnx", load_external_data=False)
        initial = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in initial]
        inputs = list(zip(names, files))
        if any(node.op_type in ("Bernoulli", "RandomUniformLike") and
               all(attribute.name != "seed" for attribute in node.attribute)
               for node in model.graph.node):
            # Left out, it would be another in each run.
            inputs.append(("anydim.random_seed", ("i64", (), [7])))
        yield Call(f"node {test.name}", test / "model.onnx", inputs)


def run(anydim, call, executor, timeout):
    with tempfile.TemporaryDirectory(prefix="anydim_executors_") as folder:
        folder = pathlib.Path(folder)
        model = call.model
        if isinstance(model, str):
            model = folder / "model.anydim"
            model.write_text(call.model)
        line = [
            str(anydim), "run",
            str(model), *call.options, "--executor", executor, "--output",
            str(folder / "out")]
        for position, (name, value) in enumerate(call.inputs):
            path = value
            if not isinstance(value, pathlib.Path):
                path = folder / f"input_{position}.npy"
                write_npy(path, value)
            line += ["--input", f"{name}={path}"]
        environment = dict(os.environ, LC_ALL="C.UTF-8")
        try:
            done = subprocess.run(line, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return "no answer", "", {}
        said = done.stderr.decode("utf-8", "backslashreplace").replace(str(folder),
                                                                       "FOLDER").splitlines()
        results = {path.stem: np.load(path) for path in sorted((folder / "out").glob("*.npy"))}
        return done.returncode, said[-1] if done.returncode == 0 and said else next(iter(said),
                                                                                    ""), results


def same(left, right):
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype.kind != "f":
        # bf16 travels as its bits: neighbours may differ by a rounding.
        return np.array_equal(
            left, right) or (left.dtype == np.uint16
                             and np.abs(left.astype(int) - right.astype(int)).max(initial=0) <= 1)
    tolerance = 1e-2 if left.dtype == np.float16 else 1e-4
    scale = np.abs(right[np.isfinite(right)]).max(initial=1)
    return np.allclose(left.astype(np.float64), right.astype(np.float64), rtol=tolerance,
                       atol=tolerance * scale, equal_nan=True)


def disagreement(one, other, any_line=False):
    """Between two outcomes; empty where there is none. any_line: what is said may differ where both
    refuse."""
    if one[0] != other[0]:
        return f"exit codes {one[0]} ({one[1]}) and {other[0]} ({other[1]})"
    if one[0] != 0:
        return "" if any_line or one[1].rstrip(".") == other[1].rstrip(
            ".") else f"first lines '{one[1]}' and '{other[1]}'"
    if one[2].keys() != other[2].keys():
        return f"outputs {sorted(one[2])} and {sorted(other[2])}"
    different = [name for name in one[2] if not same(one[2][name], other[2][name])]
    return f"results of {', '.join(different)}" if different else ""


def judge(anydim, call, timeout):
    counts = collections.Counter(calls=1)
    if pathlib.Path(call.name).name in KNOWN:
        return counts + collections.Counter(known=1), []
    outcomes = {executor: run(anydim, call, executor, timeout) for executor in EXECUTORS}
    wanted = outcomes["reference"]
    counts["refused" if wanted[0] != 0 else "computed"] += 1
    findings = []
    for executor in ("vm", "graph"):
        got = outcomes[executor]
        if executor == "graph" and got[0] == 3 and GATE in got[1]:
            counts["not for graph"] += 1
            continue
        # For the graph executor the inputs' shapes are part of the program: a misfit is told by
        # inference.
        if fault := disagreement(got, wanted, any_line=executor == "graph"):
            findings.append(f"{call.name}: {executor} against reference: {fault}")
    return counts, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anydim", type=pathlib.Path, required=True)
    parser.add_argument("--nodes", type=pathlib.Path, help="folder of ONNX node tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="calls at a time, on as many processors")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a run may take")
    parser.add_argument("--list", action="store_true", help="name the calls only")
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    processors.take(options.jobs)
    files = sorted({
        file for path in options.paths
        for file in (path.rglob("*.test") if path.is_dir() else [path])})
    calls = [call for file in files for call in text_cases(file)]
    if options.nodes:
        calls += node_cases(options.nodes)
    if options.list:
        print(*(call.name for call in calls), sep="\n")
        return 0
    if not calls:
        print("no calls found", file=sys.stderr)
        return 1
    anydim = options.anydim.resolve()
    total, failed = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for counts, findings in pool.map(lambda call: judge(anydim, call, options.timeout), calls):
            total += counts
            failed += bool(findings)
            print(*findings, sep="\n", end="\n" if findings else "")
    print(", ".join(f"{count} {what}" for what, count in total.items()))
    print(f"{len(calls) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
