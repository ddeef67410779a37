#!/usr/bin/env python3
"""Measures Anydim beside what a user would pick instead: same texts, same minutes, engines taking
turns.

usage: peers.py MODEL.onnx TOKENS.jsonl [--anydim PROGRAM] [--engines a,b] [--modes "one by
one;sorted, 8"] [--own-modes "arrival, 32"]
                [--rounds R] [--repeat P] [--threads T] [--texts N] [--masked-rows keep|zero]
                [--json]

Engines: anydim, anydim-bf16, onnxruntime, openvino-f32, openvino-bf16 (PyPI's openvino, to be
installed beside .venv's packages). Modes: "one by one", "arrival, 32" (file order, padded, batches
of 32), "sorted, 8" and "sorted, 32" (by length); --own-modes are those that Anydim alone runs in.
Every engine and mode runs in a process of its own, once in each round: one warm-up pass over the
texts, then the best of P passes. Engines take turns within a round, in an order that alternates
from round to round. Printed are medians over the rounds, and for each engine the medians of its
round-by-round ratios of throughput: to the first engine in the same mode, and to the best that any
engine of another maker and the same precision reached in that round in any mode. --masked-rows is
Anydim's option. --json prints one JSON object instead.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

START = time.perf_counter()
SPEED = "useful_tokens_per_s"
FIELDS = [SPEED, "batch_p50_ms", "batch_p99_ms", "load_s", "first_result_s", "peak_bytes"]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument(
        "--anydim", default=str(pathlib.Path(__file__).parent.parent / "build/release/bin/anydim"))
    parser.add_argument("--engines", default="anydim,onnxruntime")
    parser.add_argument("--modes", default="one by one;sorted, 8")
    parser.add_argument("--own-modes", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, help="only the first N texts")
    parser.add_argument("--masked-rows", choices=["keep", "zero"], default="keep")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "MODE"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def measure(arguments, name, mode):
    """Measures one Python engine in this process."""
    import numpy

    import encoder

    texts = encoder.read_tokens(arguments.tokens)
    work = list(encoder.batches(texts, *encoder.MODES[mode]))
    begin = time.perf_counter()
    engine = (encoder.OnnxRuntime(arguments.model, arguments.threads) if name == "onnxruntime"
              else encoder.OpenVino(arguments.model, arguments.threads, name.split("-")[1]))
    load = time.perf_counter() - begin
    engine.run(work[0])
    first = time.perf_counter() - START
    passes, times = [], []
    for _ in range(arguments.repeat + 1):
        begin = time.perf_counter()
        for batch in work:
            at = time.perf_counter()
            engine.run(batch)
            times.append(time.perf_counter() - at)
        passes.append(time.perf_counter() - begin)
    p50, p99 = numpy.percentile(times[len(work) :], [50, 99])
    return {
        "useful_tokens_per_s": sum(map(len, texts)) / min(passes[1:]), "batch_p50_ms": 1e3 * p50,
        "batch_p99_ms": 1e3 * p99, "load_s": load, "first_result_s": first,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def precision(engine):
    return "bf16" if engine.endswith("-bf16") else "f32"


def is_ours(engine):
    return engine.startswith("anydim")


def command(arguments, engine, mode, tokens):
    import encoder

    size, order = encoder.MODES[mode]
    common = [
        arguments.model, "--tokens", tokens, "--threads",
        str(arguments.threads), "--repeat",
        str(arguments.repeat)]
    if is_ours(engine):
        return [
            arguments.anydim, "bench", *common, "--batch",
            str(size), "--order", order, "--precision",
            precision(engine), "--masked-rows", arguments.masked_rows, "--json"]
    return [sys.executable, __file__, common[0], *common[2:], "--measure", engine, mode]


def run(arguments, engine, mode, tokens):
    done = subprocess.run(command(arguments, engine, mode, tokens), capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"peers.py: {engine}, {mode}: exit code {done.returncode}: {done.stderr.strip() or 'no message'}"
        )
    measured = json.loads(done.stdout)
    return {field: measured[field] for field in FIELDS}


def run_rounds(arguments, tokens):
    """A list over rounds of {mode: {engine: fields}}."""
    engines = arguments.engines.split(",")
    modes = {mode: engines for mode in arguments.modes.split(";")}
    modes |= {
        mode: list(filter(is_ours, engines)) for mode in arguments.own_modes.split(";") if mode}
    rounds = []
    for number in range(arguments.rounds):
        rounds.append({mode: {} for mode in modes})
        for mode, taking_part in modes.items():
            for engine in taking_part if number % 2 == 0 else taking_part[::-1]:
                print(f"round {number + 1} of {arguments.rounds}: {mode}: {engine}",
                      file=sys.stderr)
                rounds[-1][mode][engine] = run(arguments, engine, mode, tokens)
    return rounds


def summarise(rounds, engines):
    """{mode: {engine: medians of the fields, and the median ratio of each field to the first
    engine's}}"""
    summary = {}
    for mode in rounds[0]:
        summary[mode] = {}
        for engine in rounds[0][mode]:
            of = {field: [each[mode][engine][field] for each in rounds] for field in FIELDS}
            first = {
                field: [
                    each[mode][next(e
                                    for e in engines
                                    if e in each[mode])][field]
                    for each in rounds] for field in FIELDS}
            summary[mode][engine] = {field: statistics.median(of[field]) for field in FIELDS}
            summary[mode][engine]["ratio"] = {
                field: statistics.median(a / b for a, b in zip(of[field], first[field]))
                for field in FIELDS}
            others = [
                other for other in engines
                if is_ours(other) != is_ours(engine) and precision(other) == precision(engine)]
            if others:
                best = [
                    max(each[any_mode][other][SPEED]
                        for any_mode in each
                        for other in others
                        if other in each[any_mode])
                    for each in rounds]
                summary[mode][engine]["ratio_to_best"] = statistics.median(
                    a / b for a, b in zip(of[SPEED], best))
    return summary


def main():
    arguments = parse(sys.argv[1:])
    if arguments.measure:
        print(json.dumps(measure(arguments, *arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        tokens = arguments.tokens
        if arguments.texts:
            tokens = f"{folder}/tokens.jsonl"
            with open(arguments.tokens, encoding="utf8") as source:
                pathlib.Path(tokens).write_text("".join(source.readlines()[:arguments.texts]),
                                                encoding="utf8")
        summary = summarise(run_rounds(arguments, tokens), arguments.engines.split(","))
    if arguments.json:
        print(json.dumps(summary))
        return
    for mode, engines in summary.items():
        for engine, row in engines.items():
            print(
                f"{mode:12} {engine:13} {row['useful_tokens_per_s']:8,.0f} tokens/s  p50 {row['batch_p50_ms']:8.2f} ms  "
                f"p99 {row['batch_p99_ms']:8.2f} ms  load {row['load_s']:.2f} s  first {row['first_result_s']:.2f} s  "
                f"peak {row['peak_bytes'] / 1e6:,.0f} MB  ratio {row['ratio'][SPEED]:.2f}" +
                (f"  to the others' best {row['ratio_to_best']:.2f}" if "ratio_to_best" in
                 row else ""))


main()
