"""Runs models through `anydim run` on the cases recorded beside them and compares every output.

usage: recorded_cases_test.py MODEL.onnx... [-- OPTION...]   (MODEL.npz holds CASE.in.INPUT and
CASE.out.OUTPUT; ANYDIM names the command, which gets the options) Types, shapes, integers and truth
values must be equal; floats within 1e-4 absolute plus 1e-3 relative.
"""
import os
import pathlib
import sys

import numpy

import compare


def recorded(path):
    """{case: (inputs, outputs)} of a recording."""
    cases = {}
    with numpy.load(path) as arrays:
        for key in arrays.files:
            case, kind, name = key.split(".", 2)
            cases.setdefault(case, ({}, {}))[kind == "out"][name] = arrays[key]
    return cases


def fault(name, got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"output {name}: expected {want.dtype}{want.shape}, got {got.dtype}{got.shape}"
    if want.dtype.kind == "f":
        same = numpy.allclose(got, want, atol=1e-4, rtol=1e-3, equal_nan=True)
    else:
        same = numpy.array_equal(got, want)
    return None if same else f"output {name}: values differ"


def main():
    words = sys.argv[1:]
    models, options = (words[:words.index("--")],
                       words[words.index("--") + 1:]) if "--" in words else (words, [])
    failed = 0
    for model in map(pathlib.Path, models):
        cases = recorded(model.with_suffix(".npz"))
        assert cases, f"{model}: nothing is recorded"
        for case, (inputs, outputs) in cases.items():
            got = compare.run_anydim(os.environ["ANYDIM"], str(model), inputs, outputs, 2, options)
            faults = [
                each for each in (fault(name, got[name], want) for name, want in outputs.items())
                if each]
            failed += bool(faults)
            print(f"{model}, {case}: {'; '.join(faults) or 'passed'}")
    sys.exit(failed != 0)


main()
