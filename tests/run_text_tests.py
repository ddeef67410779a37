#!/usr/bin/env python3
"""Runs text tests: files with a command, a module, and everything the command prints.

A file NAME.test:

    // What the case shows.
    // RUN: opt --passes infer_types,dead_code
    // EXIT: 0
    fn @main(%x: Tensor[(n), f32]) {
      return relu(%x)
    }
    --- stdout
    ...
    --- stderr
    ...

- RUN is an `anydim` command line. %s stands for the module, which the command sees as the file
model.anydim in an empty working folder;
  without %s the module follows the command's name, where the file has one. %d stands for the folder
  of the test file.
- EXIT is the expected exit code, 0 where absent.
- `// INPUT x = f32 (2) [1, 2]` writes x.npy, and `--input x=x.npy --output out` joins the command;
what the run writes there is
  compared under `--- outputs`, one line `name = tensor` a file. Such tensors have at most 64
  elements.
- `// TOLERANCE 1e-6`: floats of `--- outputs` may differ by this much, absolute or relative to the
expected one.
- A section that is absent must be empty, but a file needs at least one section.
- Several cases in a file are separated by a line `=====`.

With --update the sections are rewritten with what came out; with --list the files are named and
nothing runs.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import processors
from tensor_text import format_tensor, parse_tensor, read_npy, same_within, write_npy

SEPARATOR = "====="
SECTIONS = ("stdout", "stderr", "outputs")


class BadTest(Exception):
    """The test file itself is wrong."""


class Case:
    def __init__(self, text):
        head, *parts = re.split(r"^--- (.*)\n", text, flags=re.MULTILINE)
        self.head = head
        self.sections = {}
        for name, body in zip(parts[::2], parts[1::2]):
            if name not in SECTIONS or name in self.sections:
                raise BadTest(f"the section '{name}' is unknown or given twice")
            self.sections[name] = body
        self.commands = self.marks("RUN:")
        self.inputs = [mark.partition(" = ")[::2] for mark in self.marks("INPUT")]
        self.exit = int((self.marks("EXIT:") or ["0"])[0])
        self.tolerance = float((self.marks("TOLERANCE") or ["0"])[0])
        lines = [
            line for line in head.splitlines()
            if not re.match(r"// (RUN:|EXIT:|INPUT|TOLERANCE) ", line)]
        self.has_module = any(line.strip() and not line.startswith("//") for line in lines)

    def marks(self, name):
        return [
            line[len(name) + 4:].strip()
            for line in self.head.splitlines()
            if line.startswith(f"// {name} ")]

    def text(self):
        out = self.head
        for name in SECTIONS:
            if self.sections.get(name):
                out += f"--- {name}\n{self.sections[name]}"
        return out


def command_line(case, anydim, test_file):
    if len(case.commands) != 1:
        raise BadTest(f"a case has one line '// RUN: ...', here are {len(case.commands)}")
    words = shlex.split(case.commands[0])
    if case.has_module and not any("%s" in word for word in words):
        words.insert(1, "%s")
    words = [
        word.replace("%s", "model.anydim").replace("%d", str(test_file.parent.resolve()))
        for word in words]
    for name, _ in case.inputs:
        words += ["--input", f"{name}={name}.npy"]
    return [str(anydim), *words, *(["--output", "out"] if case.inputs else [])]


def run_case(case, anydim, test_file, timeout):
    """Returns the exit code and the sections that came out."""
    with tempfile.TemporaryDirectory(prefix="anydim_text_test_") as folder:
        folder = pathlib.Path(folder)
        (folder / "model.anydim").write_text(case.head)
        for name, text in case.inputs:
            write_npy(folder / f"{name}.npy", parse_tensor(text))
        environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"), LC_ALL="C.UTF-8")
        done = subprocess.run(command_line(case, anydim, test_file), cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False)
        written = sorted((folder / "out").glob("*.npy"))
        outputs = "".join(f"{path.stem} = {format_tensor(read_npy(path))}\n" for path in written)

        def clean(raw):
            text = raw.decode("utf-8", "backslashreplace").replace(str(folder), "FOLDER")
            return text if not text or text.endswith("\n") else text + "\n(no newline at the end)\n"

        return done.returncode, {
            "stdout": clean(done.stdout), "stderr": clean(done.stderr), "outputs": outputs}


def difference(name, wanted, got):
    return "".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(
        wanted.splitlines(True), got.splitlines(True), f"{name} expected", f"{name} got"))


def outputs_agree(wanted, got, tolerance):
    left, right = ([line.partition(" = ")[::2]
                    for line in text.splitlines()]
                   for text in (wanted, got))
    return len(left) == len(right) and all(
        a[0] == b[0] and same_within(parse_tensor(a[1]), parse_tensor(b[1]), tolerance)
        for a, b in zip(left, right))


def judge(case, code, got):
    """What is wrong, empty where nothing is."""
    findings = []
    if code != case.exit:
        findings.append(f"exit code {code}, expected {case.exit}\n")
    for name in SECTIONS:
        wanted = case.sections.get(name, "")
        if wanted == got[name] or (name == "outputs" and case.tolerance
                                   and outputs_agree(wanted, got[name], case.tolerance)):
            continue
        findings.append(difference(name, wanted, got[name]))
    return "".join(findings)


def run_file(path, anydim, update, timeout):
    """Returns the failure's text, empty where the file passes."""
    failures = []
    cases = []
    try:
        text = path.read_text()
        for number, part in enumerate(re.split(rf"^{SEPARATOR}\n", text, flags=re.MULTILINE), 1):
            case = Case(part)
            cases.append(case)
            code, got = run_case(case, anydim, path, timeout)
            if update and code == case.exit:
                kept = case.tolerance and outputs_agree(case.sections.get("outputs", ""),
                                                        got["outputs"], case.tolerance)
                case.sections = got | ({"outputs": case.sections["outputs"]} if kept else {})
                continue
            if not update and not case.sections:
                failures.append(f"case {number} expects nothing; --update writes what comes out\n")
            if finding := judge(case, code, got):
                failures.append(f"case {number}: anydim {case.commands[0]}\n{finding}")
        if update and not failures:
            path.write_text((SEPARATOR + "\n").join(case.text() for case in cases))
    except (BadTest, ValueError, OSError) as error:
        failures.append(f"case {len(cases)}: {error}\n")
    except subprocess.TimeoutExpired:
        failures.append(f"case {len(cases)}: no answer within {timeout} s\n")
    return "".join(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anydim", type=pathlib.Path, required=True, help="the command under test")
    parser.add_argument("--update", action="store_true", help="rewrite the expectations")
    parser.add_argument("--list", action="store_true", help="name the files only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="calls at a time, on as many processors")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a command may take")
    parser.add_argument("paths", nargs="+", type=pathlib.Path,
                        help="test files, or folders of them")
    options = parser.parse_args()
    processors.take(options.jobs)

    files = sorted({
        file for path in options.paths
        for file in (path.rglob("*.test") if path.is_dir() else [path])})
    if options.list:
        print(*files, sep="\n")
        return 0
    if not files:
        print("no test files in", *options.paths, file=sys.stderr)
        return 1
    anydim = options.anydim.resolve()
    if not anydim.is_file():
        print(f"there is no command {anydim}", file=sys.stderr)
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda file: run_file(file, anydim, options.update, options.timeout),
                           files)
        for file, failure in zip(files, results):
            if failure:
                failed += 1
                print(f"FAILED {file}\n{failure}")
    print(f"{len(files) - failed} of {len(files)} text tests passed" +
          (", rewritten" if options.update else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
