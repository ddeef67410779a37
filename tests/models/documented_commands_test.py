"""Every command in the indented blocks of docs/*.md runs, in order, page by page, on small models
under the names that the page uses. ANYDIM names the command.

A command that stands in no page's list below fails the test: a page that shows one says here what
its files are.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = re.compile(r"^    (?:\$ )?(anydim (?:bench|compare|explain|opt|run|tune) [^#\n]*)",
                     re.MULTILINE)


def graph_model(path, inputs, nodes, output, weights):
    info = [
        helper.make_tensor_value_info(*one) for one in (*inputs, (output, TensorProto.FLOAT, None))]
    random = numpy.random.default_rng(1)
    constants = [numpy_helper.from_array(random.standard_normal(shape, "float32"), name)
                 for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "model", info[:-1], info[-1:], constants)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def embedder(path):
    """A mean of token embeddings over what a mask lets take part: inputs `input_ids` and
    `attention_mask`."""
    ids = [(name, TensorProto.INT64, ["batch", "seq"]) for name in ("input_ids", "attention_mask")]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x"]),
             helper.make_node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["real", "axis"], ["column"]),
             helper.make_node("Mul", ["x", "column"], ["kept"]),
             helper.make_node("ReduceSum", ["kept", "rows"], ["y"], keepdims=0)]
    graph_model(path, ids, nodes, "y", {"table": (100, 8)})
    model = onnx.load(path)
    model.graph.initializer.extend([
        numpy_helper.from_array(numpy.array([2]), "axis"),
        numpy_helper.from_array(numpy.array([1]), "rows")])
    onnx.save(model, path)


def dense(path):
    """relu(x w): input `x` of rows of 128 numbers."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph_model(path, [("x", TensorProto.FLOAT, ["n", 128])], nodes, "z", {"w": (128, 4)})


# By page: the model's file and maker, what the page's words stand for, and what makes a command
# short.
SHORT = {
    "bench": "--duration 0 --warm-up 0 --iterations 2", "compare": "--rounds 1",
    "tune": "--budget 2s"}
PAGES = {
    "measuring": (embedder, {"MODEL": "model.onnx"}),
    "tracing": (dense, {}),
    "tuning-elsewhere": (dense, {"...": "--input x=x.npy"}),
    "architecture": (None, {}),
}


class Documented(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_documented_"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "docs").symlink_to(ROOT / "docs")
        numpy.save(self.folder / "x.npy", numpy.ones((8, 128), "float32"))
        numpy.save(self.folder / "ids.npy", numpy.ones((2, 7), "int64"))
        lines = [json.dumps(list(range(1, 3 + 5 * i))) for i in range(6)]
        (self.folder / "texts.jsonl").write_text("\n".join(lines) + "\n")

    def run_command(self, line, names):
        words = [names.get(word, word) for word in shlex.split(line)[1:]]
        words = shlex.split(" ".join(words))
        if words[0] == "compare":
            words += ["--python", sys.executable]
        if "--export" not in words:
            words += shlex.split(SHORT.get(words[0], ""))
        if "--threads" in words:  # as many as any machine has
            words[words.index("--threads") + 1] = "1"
        done = subprocess.run([os.environ["ANYDIM"], *words], cwd=self.folder, timeout=300,
                              check=False,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")
                                   }, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stderr}")

    def test_every_command(self):
        found = {
            page.stem: COMMAND.findall(page.read_text()) for page in (ROOT / "docs").glob("*.md")}
        found = {page: commands for page, commands in found.items() if commands}
        self.assertEqual(set(found), set(PAGES))
        for page, commands in found.items():
            make, names = PAGES[page]
            if make:
                make(self.folder / "model.onnx")
            for command in commands:
                with self.subTest(page=page, command=command):
                    self.run_command(command, names)


if __name__ == "__main__":
    unittest.main()
