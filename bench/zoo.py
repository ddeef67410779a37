#!/usr/bin/env python3
"""Makes, checks and times small exports of many architectures: of texts (decoders with and without
a cache), images, sound and recurrent nets.

usage: zoo.py make FOLDER [--exporter dynamo|legacy] [NAME ...]
       zoo.py derive FOLDER --form O1|O2|O3|f16 [NAME ...]
       zoo.py check FOLDER [--anydim PROGRAM] [--table FILE] [NAME ...]
       zoo.py time FOLDER [--anydim PROGRAM] [--threads T] [--rounds R] [--repeat CALLS]
                   [--every-case] [--append-in-place] [NAME ...]
       zoo.py cuda FOLDER [--anydim PROGRAM] [--interpreter PROGRAM] [--part PART] [--limit S]
                   [--table FILE] [NAME ...]

make installs the exporter's packages (bench/zoo/requirements-EXPORTER.txt, from PyPI, several GB)
into FOLDER/env-EXPORTER and writes FOLDER/NAME.EXPORTER.onnx with recorded cases
(bench/zoo/models.py says which architectures there are: NAME_step reads and gives a decoder's cache
as past_key_values and present, where there is an encoder its keys and values too; NAME_decoder
reads the encoder's states instead). derive writes NAME.EXPORTER.FORM.onnx: as
ONNX Runtime's optimizer for transformers leaves the model at that level (O3 is O2 with gelu by
tanh), or computed in f16 between inputs and outputs of f32 (bench/zoo/derive.py). check runs every
model on its cases with --masked-rows zero and says whether it loads, how far the rows that take
part are from ONNX Runtime's, whether padding was removed or why not, and how long the first result
takes with an empty and a warm kernel cache; with --table also as a table for docs/models.md. time
runs the last case (--every-case: each) beside ONNX Runtime, in turns; with --append-in-place a
step's keys and values stay in Anydim's cache, where ONNX Runtime is given and gives them. cuda
needs NVRTC, but no GPU: it compiles the kernels of the first case for a part (to machine code where
ANYDIM_NVDISASM names nvdisasm, else to PTX) and runs the smallest case, of those whose mask hides
something, on the interpreter of PTX (build/release/bin/ptx_model) for up to --limit seconds. NAME
is an architecture or architecture.exporter; default: all that the folder has, for make all that are
not of full size.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

from encoder import settle

HERE = pathlib.Path(__file__).parent
PROGRAM = str(HERE.parent / "build/release/bin/anydim")
INTERPRETER = str(HERE.parent / "build/release/bin/ptx_model")
EXPORTERS = ["dynamo", "legacy"]
FORMS = ["O1", "O2", "O3", "f16"]
TOLERANCES = {"f16": 5e-2}  # of a derived form; others 1e-4


def environment(folder, exporter):
    """Its interpreter, with the exporter's packages."""
    python = folder / f"env-{exporter}" / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        wanted = HERE / f"zoo/requirements-{exporter}.txt"
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(wanted)], check=True)
    return python


def make(arguments):
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for exporter in [arguments.exporter] if arguments.exporter else EXPORTERS:
        script = [str(environment(folder, exporter)), str(HERE / "zoo/export.py"), str(folder),
                  exporter]
        failed |= subprocess.run(script + arguments.names, check=False).returncode
    return failed


def derive(arguments):
    python = environment(pathlib.Path(arguments.folder), "dynamo")
    models = [model.stem for model in chosen(arguments) if model.suffixes[-2][1:] not in FORMS]
    script = [str(python), str(HERE / "zoo/derive.py"), arguments.folder, arguments.form]
    return subprocess.run(script + models, check=False).returncode


def chosen(arguments):
    for path in sorted(pathlib.Path(arguments.folder).glob("*.npz")):
        name = path.stem
        if not arguments.names or name in arguments.names or name.split(".")[0] in arguments.names:
            yield path.with_suffix(".onnx")


def tolerance_of(model):
    return TOLERANCES.get(model.suffixes[-2][1:], 1e-4)


def cases_of(model):
    """The recorded calls: [(inputs, outputs)], each name to array."""
    cases = {}
    with numpy.load(model.with_suffix(".npz")) as data:
        for key in data.files:
            number, kind, name = key.split(".", 2)
            cases.setdefault(int(number), ({}, {}))[kind == "out"][name] = data[key]
    return [cases[number] for number in sorted(cases)]


def input_arguments(folder, inputs):
    given = []
    for name, value in inputs.items():
        path = file_of(folder, f"in_{name}")
        numpy.save(path, value)
        given += ["--input", f"{name}={path}"]
    return given


def kept_rows(inputs, output):
    """Where the output's rows take part: a mask over its first two dims, or all of it."""
    mask = inputs.get("attention_mask")
    if mask is None or output.ndim < 2 or output.shape[:2] != mask.shape:
        return ...
    return mask != 0


def file_of(folder, name):
    return pathlib.Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy")


def largest_difference(folder, inputs, outputs):
    """Of the files of a folder from the outputs, in rows that take part."""
    worst = 0.0
    for name, wanted in outputs.items():
        got = numpy.load(file_of(folder, name))
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            raise RuntimeError(f"{name}: expected {wanted.dtype}{wanted.shape}, "
                               f"got {got.dtype}{got.shape}")
        rows = kept_rows(inputs, wanted)
        if wanted[rows].size:
            ours, theirs = got[rows].astype("f8"), wanted[rows].astype("f8")
            same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs))
            apart = numpy.where(same, 0, numpy.abs(ours - theirs))
            worst = float(numpy.maximum(worst, apart.max()))  # NaN stays
    return worst


def run_case(program, model, inputs, outputs, cache):
    """The largest difference of rows that take part, the seconds, and what the command said."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", str(model), "--output", folder, "--cache-dir", cache,
                   "--masked-rows", "zero", *input_arguments(folder, inputs)]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["nothing said"])[-1])
        return largest_difference(folder, inputs, outputs), seconds


def shape_of(inputs):
    """The first input's, and how long the cache is: 8x1+128."""
    cached = next((value.shape[2] for name, value in inputs.items()
                   if name.startswith("past_key_values.") and ".encoder." not in name), None)
    return ("x".join(map(str, next(iter(inputs.values())).shape))
            + ("" if cached is None else f"+{cached}"))


def shape_arguments(inputs):
    return [word for name, value in inputs.items()
            for word in ("--shape", f"{name}={'x'.join(map(str, value.shape))}")]


def padding_of(program, model, inputs, cache):
    """'removed', or why not; empty where the model has no mask."""
    if "attention_mask" not in inputs:
        return ""
    command = [program, "explain", str(model), "--repeat", "1", "--cache-dir", cache,
               "--masked-rows", "zero", *shape_arguments(inputs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r"^padding: (removed|kept)(?:: (.*))?", done.stdout, re.MULTILINE)
    if not found:
        return "unknown: " + (done.stderr.strip().splitlines() or ["nothing said"])[0]
    return "removed" if found[1] == "removed" else "kept: " + (found[2] or "")


def check(arguments):
    rows, failed = [], 0
    for model in chosen(arguments):
        cases = cases_of(model)
        row = {"model": model.stem, "loads": False, "worst": None, "padding": "", "problem": ""}
        with tempfile.TemporaryDirectory() as cache:
            try:
                times = [run_case(arguments.anydim, model, *cases[0], cache)[1] for _ in range(2)]
                worst = max(run_case(arguments.anydim, model, *case, cache)[0] for case in cases)
                row |= {"loads": True, "worst": worst, "cold_s": times[0], "warm_s": times[1],
                        "padding": padding_of(arguments.anydim, model, cases[0][0], cache)}
                if not worst <= tolerance_of(model):
                    row["problem"] = "differs from ONNX Runtime"
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                row["problem"] = str(error)
        failed += bool(row["problem"])
        rows.append(row)
        print(f"{row['model']}: " + (row["problem"] if row["worst"] is None else
              f"worst {row['worst']:.1e}, cold {row['cold_s']:.2f} s, warm {row['warm_s']:.2f} s, "
              f"padding {row['padding'] or 'none'} {row['problem']}"), flush=True)
    if arguments.table:
        pathlib.Path(arguments.table).write_text(table_of(rows))
    packed = sum(row["padding"] == "removed" for row in rows)
    masked = sum(bool(row["padding"]) for row in rows)
    print(f"{len(rows)} models, {sum(row['loads'] for row in rows)} load, {failed} with a problem; "
          f"padding removed from {packed} of {masked} that have a mask")
    return 1 if failed else 0


def table_of(rows):
    lines = ["| model | exporter | largest difference | padding | first result, s (cold, warm) |",
             "|---|---|---|---|---|"]
    for row in rows:
        name, exporter = row["model"].split(".", 1)
        result = (f"{row['worst']:.1e} | {row['padding'] or 'no mask'} | "
                  f"{row['cold_s']:.2f}, {row['warm_s']:.2f}" if row["loads"]
                  else f"does not load: {row['problem']} | |")
        lines.append(f"| {name} | {exporter} | {result} |")
    return "\n".join(lines) + "\n"


def compile_for_part(arguments, model, inputs, folder):
    """How many kernels of the case were compiled."""
    form = "sass" if "ANYDIM_NVDISASM" in os.environ else "ptx"
    command = [arguments.anydim, "explain", str(model), "--device", "cuda", "--gpu", arguments.part,
               "--masked-rows", "zero", "--emit", form, folder, *shape_arguments(inputs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing said"])[0])
    return len(list(pathlib.Path(folder).glob(f"*.{form}")))


def interpret(arguments, model, inputs, outputs, folder):
    """What ptx_model says, and the largest difference."""
    for name, value in inputs.items():
        numpy.save(file_of(folder, name), value)
    done = subprocess.run([arguments.interpreter, str(model), arguments.part, "f32", folder],
                          capture_output=True, text=True, timeout=arguments.limit)
    if done.returncode != 0:
        raise RuntimeError(" ".join(done.stderr.split())[:300] or f"exit {done.returncode}")
    worst = largest_difference(pathlib.Path(folder) / "out", inputs, outputs)
    return json.loads(done.stdout) | {"worst": worst}


def size_with_padding(case):
    """Orders cases: those first whose mask hides something, then by how much there is to do."""
    mask = case[0].get("attention_mask")
    return mask is None or bool(mask.all()), sum(value.size for value in case[0].values())


def cuda(arguments):
    lines = [
        "| model | exporter | kernels compiled | launches interpreted | input | largest difference |",
        "|---|---|---|---|---|---|"]
    compiled = right = failed = 0
    for model in chosen(arguments):
        cases = cases_of(model)
        inputs, outputs = min(cases, key=size_with_padding)
        row = model.stem.split(".", 1)
        try:
            with tempfile.TemporaryDirectory() as folder:
                row.append(str(compile_for_part(arguments, model, cases[0][0], folder)))
            compiled += 1
            with tempfile.TemporaryDirectory() as folder:
                said = interpret(arguments, model, inputs, outputs, folder)
            shape = shape_of(inputs)
            row += [str(said["kernels_run"]) + (", packed" if said["packed"] else ""), shape,
                    f"{said['worst']:.1e}"]
            right += said["worst"] <= tolerance_of(model)
            failed += not said["worst"] <= tolerance_of(model)
        except subprocess.TimeoutExpired:
            row += ["more than the time allowed", "", ""]
        except RuntimeError as error:
            failed += 1
            row += [str(error)] + [""] * (5 - len(row))
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if arguments.table:
        pathlib.Path(arguments.table).write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 2} models, {compiled} compile for {arguments.part}, {right} right on the "
          f"interpreter, {failed} with a problem")
    return 1 if failed else 0


def time_case(arguments, model, session, inputs):
    """Seconds of a call, of ONNX Runtime's, and the median of what each round's calls are apart;
    None, which has been said, where there is no result."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.anydim, "bench", str(model), "--json", "--iterations",
                   str(arguments.repeat), "--duration", "0", "--threads", str(arguments.threads),
                   "--cache-dir", folder, *input_arguments(folder, inputs),
                   *(["--append-in-place"] if arguments.append_in_place else [])]
        for _ in range(arguments.rounds):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"{model.stem}: not measured: {done.stderr.strip()}", flush=True)
                return None
            ours.append(json.loads(done.stdout)["p50_ms"] / 1e3)
            calls = []
            for _ in range(arguments.repeat):
                begin = time.perf_counter()
                session.run(None, inputs)
                calls.append(time.perf_counter() - begin)
            theirs.append(statistics.median(calls))
            settle()
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    return statistics.median(ours), statistics.median(theirs), ratio


def time_models(arguments):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    ratios = []
    for model in chosen(arguments):
        session = onnxruntime.InferenceSession(str(model), options)
        cases = cases_of(model)
        for inputs, _ in cases if arguments.every_case else cases[-1:]:
            timed = time_case(arguments, model, session, inputs)
            if not timed:
                continue
            ours, theirs, ratio = timed
            ratios.append(ratio)
            shape = shape_of(inputs)
            print(f"{model.stem} {shape}: {ours * 1e3:.3f} ms, ONNX Runtime {theirs * 1e3:.3f} ms, "
                  f"ratio {ratio:.2f}", flush=True)
    if ratios:
        print(f"{len(ratios)} models, geometric mean of the ratios "
              f"{statistics.geometric_mean(ratios):.2f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["make", "derive", "check", "time", "cuda"])
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--form", choices=FORMS)
    parser.add_argument("--anydim", default=PROGRAM)
    parser.add_argument("--table")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=25, help="calls a round")
    parser.add_argument("--every-case", action="store_true")
    parser.add_argument("--append-in-place", action="store_true")
    parser.add_argument("--interpreter", default=INTERPRETER)
    parser.add_argument("--part", default="h100")
    parser.add_argument("--limit", type=float, default=120, help="seconds of interpretation")
    arguments = parser.parse_intermixed_args()
    if arguments.command == "derive" and not arguments.form:
        parser.error("derive needs --form")
    commands = {"make": make, "derive": derive, "check": check, "time": time_models, "cuda": cuda}
    return commands[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
