"""Recurrent layers and loops that no exporter would write: operands of wrong sizes, and no trips."""
import unittest

import numpy
from onnx import TensorProto, helper

from hostile_models_test import HostileModels, node, tensor


class Layers(HostileModels):
    GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
    OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}

    def cell(self, op, outputs=None, weights=(), steps="s", **attributes):
        """A layer of two units over inputs of three; `weights` replaces the dims of operands by
        name."""
        gates = self.GATES[op]
        dims = {"W": (1, 2 * gates, 3), "R": (1, 2 * gates, 2)} | dict(weights)
        random = numpy.random.default_rng(5)
        operands = [
            name if name in dims else "" for name in ("W", "R", "B", "lengths", "H", "C", "P")]
        while not operands[-1]:
            operands.pop()
        names = [f"o{i}" for i in range(outputs or self.OUTPUTS[op])]
        self.save(
            [node(op, ["x", *operands], names, **({"hidden_size": 2} | attributes))],
            [tensor("x", [steps, "b", 3])], [tensor(name, None) for name in names], {
                name: numpy.ones(shape, numpy.int32)
                      if name == "lengths" else random.standard_normal(shape).astype(numpy.float32)
                for name, shape in dims.items()})


class Recurrent(Layers):
    def test_outputs_too_many(self):
        for op, most in self.OUTPUTS.items():
            self.cell(op, most + 1)
            self.refused(
                4, f"node 'the_{op}' ({op}) has {most + 1} output(s), expected 1 to {most}\n",
                "opt", "m.onnx")

    def test_hidden_sizes_that_are_none(self):
        for op in self.GATES:
            for size in (0, 2**30 + 1, -2**63):
                self.cell(op, hidden_size=size)
                self.refused(
                    4,
                    f"node 'the_{op}' ({op}) has the hidden_size {size}; expected 1 to 1073741824\n",
                    "opt", "m.onnx")

    def test_hidden_sizes_that_contradict_the_weights(self):
        for op in self.GATES:
            for size in (1, 3, 2**30):
                self.cell(op, hidden_size=size)
                self.assertIn(f"'the_{op}'", self.refused(4, ": expected ", "opt", "m.onnx"))
            code, said, _ = self.run_model("reference", x=numpy.ones((1, 1, 3), numpy.float32))
            self.assertEqual(code, 4, said)


    def test_operands_of_other_sizes_are_not_broadcast(self):
        for op, gates in self.GATES.items():
            wrong = [{"W": (1, 1, 3)}, {"W": (2, 2 * gates, 3)}, {"R": (1, 1, 2)},
                     {"B": (1, 2 * gates)}, {"B": (1, 4 * gates + 1)}, {"B": (2, 4 * gates)},
                     {"H": (1, 2, 1)}]
            for weights in wrong + ([{"P": (1, 5)}, {"P": (1, 8)}, {"C":
                (2, 2, 2)}] if op == "LSTM" else []):
                with self.subTest(op=op, weights=weights):
                    self.cell(op, weights=weights)
                    self.assertIn(f"'the_{op}'", self.refused(4, ": expected ", "opt", "m.onnx"))

    def test_states_have_two_dims_beside_the_directions(self):
        for op in self.GATES:
            self.cell(op, weights={"H": (1, 2, 1, 2)})
            self.refused(
                4,
                f"transpose 'the_{op}' (%o0.20): the permutation has 2 axes, but operand 0 (%o0.19) has rank 3.\n",
                "opt", "m.onnx")

    def test_operands_of_another_batch_are_not_broadcast(self):
        x = numpy.ones((3, 2, 3), numpy.float32)
        for op, gates in self.GATES.items():
            weights = {"B": (1, 4 * gates), "lengths": (2,), "H": (1, 2, 2)}
            if op == "LSTM":
                weights |= {"C": (1, 2, 2), "P": (1, 6)}
            self.cell(op, weights=weights)
            self.agree(x=x)
            for weights in ({"H": (1, 1, 2)}, {"H": (1, 5, 2)}, {"lengths": (1,)}):
                with self.subTest(op=op, weights=weights):
                    self.cell(op, weights=weights)
                    for executor in ("vm", "reference")[: 2 if op == "LSTM" else 1]:
                        code, said, _ = self.run_model(executor, x=x)
                        self.assertEqual(code, 5, said)
                        self.assertIn(f"'the_{op}'", said)


class NoTrips(Layers):
    def test_loops(self):
        """Scan outputs have the dims that their elements would have."""
        body = helper.make_graph([
            node("Identity", ["on"], ["on_out"]),
            node("Add", ["v", "v"], ["next"]),
            node("ReduceSum", ["v"], ["each"], keepdims=0),
            node("Concat", ["v", "v"], ["wide"], axis=1)], "body", [
                tensor("i", [], TensorProto.INT64),
                tensor("on", [], TensorProto.BOOL),
                tensor("v", ["n", 3])], [
                    tensor("on_out", [], TensorProto.BOOL),
                    tensor("next", ["n", 3]),
                    tensor("each", []),
                    tensor("wide", ["n", 6])])
        self.save([node("Loop", ["trips", "go", "x"], ["last", "sums", "wides"], body=body)], [
            tensor("trips", [], TensorProto.INT64),
            tensor("go", [], TensorProto.BOOL),
            tensor("x", ["n", 3])], [
                tensor("last", ["n", 3]),
                tensor("sums", [None]),
                tensor("wides", [None, None, 6])])
        x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        nothing = {
            "last": x, "sums": numpy.zeros(0, numpy.float32), "wides": numpy.zeros((0, 2, 6),
                                                                                   numpy.float32)}
        for trips, go in ((0, True), (-5, True), (3, False), (-2**63, True)):
            with self.subTest(trips=trips, go=go):
                self.agree(nothing, trips=numpy.array(trips), go=numpy.array(go), x=x)
        self.agree(
            {
                "last": 4 * x, "sums": numpy.array([15, 30], numpy.float32), "wides": numpy.stack([
                    numpy.tile(x, 2), 2 * numpy.tile(x, 2)])}, trips=numpy.array(2),
            go=numpy.array(True), x=x)

    def test_scans(self):
        body = helper.make_graph(
            [node("Add", ["state", "row"], ["next"]),
             node("Mul", ["next", "row"], ["each"])], "body",
            [tensor("state", [3]), tensor("row", [3])],
            [tensor("next", [3]), tensor("each", [3])])
        self.save([node("Scan", ["start", "rows"], ["last", "all"], body=body, num_scan_inputs=1)],
                  [tensor("start", [3]), tensor("rows", ["n", 3])],
                  [tensor("last", [3]), tensor("all", ["n", 3])])
        start = numpy.array([1, 2, 3], numpy.float32)
        self.agree({"last": start, "all": numpy.zeros((0, 3), numpy.float32)}, start=start,
                   rows=numpy.zeros((0, 3), numpy.float32))
        self.agree({"last": 3 * start, "all": numpy.stack([2 * start * start, 3 * start * start])},
                   start=start, rows=numpy.stack([start, start]))

    def test_layers(self):
        for op, direction in (("RNN", "forward"), ("GRU", "reverse"), ("LSTM", "forward"),
                              ("LSTM", "reverse")):
            with self.subTest(op=op, direction=direction):
                self.cell(op, direction=direction)
                got = self.agree(x=numpy.zeros((0, 2, 3), numpy.float32))
                self.assertEqual({name: value.shape for name, value in got.items()},
                                 {"o0": (0, 1, 2, 2), "o1": (1, 2, 2)} | ({"o2":
                                     (1, 2, 2)} if op == "LSTM" else {}))
                self.agree(x=numpy.ones((2, 2, 3), numpy.float32))


if __name__ == "__main__":
    unittest.main()
