"""`anydim compare` beside the real ONNX Runtime: what agrees, what differs, and what only one of
them computes. ANYDIM names the command."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper

MODELS = pathlib.Path(__file__).parent


def compare(model, *words, code=0, python=sys.executable):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [os.environ["ANYDIM"], "compare", str(model), "--python", python, *words],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "TMPDIR": folder})
        assert done.returncode == code, done.stderr
        left = [name for name in os.listdir(folder) if name.startswith("anydim")]
        assert not left, f"{left} stay"
    return done


class Compare(unittest.TestCase):
    def test_a_real_model(self):
        done = compare(MODELS / "tiny_bert.onnx", "--shape", "input_ids=2x7", "--rounds", "3")
        self.assertRegex(done.stdout, r"hidden: f32 \(2, 7, 32\); largest difference [0-9.e-]+")
        self.assertRegex(done.stdout, r"anydim [0-9.]+ ms a call, ONNX Runtime [0-9.]+ [0-9.]+ ms")

    def test_every_dtype_in_json(self):
        """Floats, integers and truth values, compared as what they are."""
        info = [helper.make_tensor_value_info(*one) for one in (
            ("x", TensorProto.FLOAT, ["n"]), ("h", TensorProto.FLOAT16, ["n"]),
            ("i", TensorProto.INT64, ["n"]), ("b", TensorProto.BOOL, ["n"]))]
        nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
                 helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
                 helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL)]
        graph = helper.make_graph(nodes, "casts", info[:1], info[1:])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/m.onnx")
            numpy.save(f"{folder}/x.npy", numpy.array([0, -1.5, 70, 1e-3], "float32"))
            words = ("--input", f"x={folder}/x.npy", "--rounds", "1", "--json")
            said = json.loads(compare(f"{folder}/m.onnx", *words).stdout)
        self.assertTrue(said["within"])
        differences = {output["name"]: output["absolute"] for output in said["outputs"]}
        self.assertEqual(differences, {"h": 0, "i": 0, "b": 0})

    def test_random_numbers(self):
        """What draws is called without our seed, and differs as it may."""
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
        nodes = [helper.make_node("RandomUniformLike", ["x"], ["y"])]
        graph = helper.make_graph(nodes, "draws", info[:1], info[1:])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/m.onnx")
            said = compare(f"{folder}/m.onnx", "--shape", "x=9", "--rounds", "1", "--tolerance", "2")
        self.assertRegex(said.stdout, r"y: f32 \(9\); largest difference 0\.[0-9]+")

    def test_differences_end_with_exit_code_1(self):
        done = compare(MODELS / "tiny_bert.onnx", "--shape", "input_ids=2x7", "--rounds", "1",
                       "--precision", "bf16", "--tolerance", "1e-9", code=1)
        self.assertRegex(done.stdout, r"hidden: f32 \(2, 7, 32\); largest difference")

    def test_without_onnx_runtime(self):
        done = compare(MODELS / "tiny_bert.onnx", "--shape", "input_ids=2x7", code=6,
                       python="/usr/bin/false")
        self.assertIn("compare needs ONNX Runtime in '/usr/bin/false'", done.stderr)


if __name__ == "__main__":
    unittest.main()
