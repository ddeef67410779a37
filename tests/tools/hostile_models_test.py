"""ONNX models made to break a compiler: of great size, with functions that grow, with
contradictions, with element types that Anydim lacks, with branches that could not
run. ANYDIM names the command."""
import os
import resource
import shutil
import sys
import time
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from hostile_test import SANITIZED, Hostile

LIMITS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "limits.md")


def tensor(name, dims, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, dims)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"the_{op}", **attributes)


class HostileModels(Hostile):
    def save(self, nodes, inputs, outputs, constants=None, functions=()):
        """Writes m.onnx."""
        initial = [
            numpy_helper.from_array(numpy.asarray(value), name)
            if not isinstance(value, TensorProto) else value
            for name, value in (constants or {}).items()]
        domains = [
            helper.make_opsetid("", 18), *([helper.make_opsetid("own", 1)] if functions else [])]
        graph = helper.make_graph(nodes, "graph", inputs, outputs, initializer=initial)
        onnx.save(
            helper.make_model(graph, opset_imports=domains, functions=list(functions),
                              ir_version=8), self.folder / "m.onnx")

    def run_model(self, executor, model="m.onnx", **inputs):
        """Exit code, standard error, and the outputs by name."""
        words = []
        for name, value in inputs.items():
            numpy.save(self.folder / f"{name}.npy", value)
            words += ["--input", f"{name}={name}.npy"]
        done = self.anydim("run", model, "--executor", executor, "--output", executor, *words)
        return done.returncode, done.stderr.decode(), {
            path.stem: numpy.load(path) for path in sorted((self.folder / executor).glob("*.npy"))}

    def agree(self, wanted=None, model="m.onnx", **inputs):
        """The virtual machine and the reference executor give the same, and what is wanted where
        that is known."""
        code, said, got = self.run_model("vm", model, **inputs)
        self.assertEqual(code, 0, said)
        code, said, reference = self.run_model("reference", model, **inputs)
        self.assertEqual(code, 0, said)
        self.assertTrue(got)
        for other in (reference, *([wanted] if wanted else [])):
            self.assertEqual(got.keys(), other.keys())
            for name, value in other.items():
                self.assertEqual((got[name].shape, got[name].dtype), (value.shape, value.dtype),
                                 name)
                numpy.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
        return got


class Sizes(HostileModels):
    """Compile time is near linear: each ends long before the 120 s after which the command is given
    up. Sanitizers get a tenth."""
    PART = 10 if SANITIZED else 1

    def compiles(self, what, model="m.onnx"):
        began = time.monotonic()
        done = self.anydim("opt", model)
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"{what}: {time.monotonic() - began:.1f} s", file=sys.stderr)

    def runs(self, what, inputs):
        """Compiles kernels too; each test has its own cache of them."""
        began = time.monotonic()
        code, said, _ = self.run_model("vm", **inputs)
        self.assertEqual(code, 0, said)
        seconds = time.monotonic() - began
        print(f"{what}: {seconds:.1f} s", file=sys.stderr)
        return seconds

    def grows(self, what, count, inputs, write):
        """Four times as much takes at most eight times as long, and ten seconds that a busy machine
        may add: sixteen times would be the square."""
        few, many = [], []
        for size, seconds in ((count // self.PART, few), (4 * count // self.PART, many)):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            write(size)
            seconds.append(self.runs(f"{what}, {size}", inputs))
        self.assertLess(many[0], 8 * few[0] + 10)

    def test_a_long_chain(self):
        count = 20000 // self.PART
        self.save([helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)],
                  [tensor("v0", ["n"])], [tensor(f"v{count}", ["n"])])
        self.compiles(f"a chain of {count} Neg")

    def test_a_wide_concat(self):
        count = 30000 // self.PART
        self.save([node("Concat", ["x"] * count, ["y"], axis=0)], [tensor("x", ["n", 2])],
                  [tensor("y", [None, 2])])
        self.compiles(f"Concat of {count}")

    def test_a_wide_sum(self):
        names = [f"x{i}" for i in range(5000 // self.PART)]
        self.save([node("Sum", names, ["y"])], [tensor(name, ["n"]) for name in names],
                  [tensor("y", ["n"])])
        self.compiles(f"Sum of {len(names)}")

    X = {"x": numpy.array([1, -2, 3], numpy.float32)}

    def test_many_scalars(self):
        """As of layers that differ in a scale: each would be a kernel of its own."""
        def write(count):
            nodes = [
                node(op, [f"{source}{i}", f"{operand}{i}"], [result])
                for i in range(count)
                for op, source, operand, result in (("MatMul", "v", "w", f"m{i}"), ("Mul", "m", "c",
                                                                                    f"v{i + 1}"))]
            constants = {f"w{i}": numpy.eye(4, dtype=numpy.float32) for i in range(count)}
            constants |= {f"c{i}": numpy.float32(1 + i / 1000) for i in range(count)}
            self.save(nodes, [tensor("v0", ["n", 4])], [tensor(f"v{count}", ["n", 4])], constants)
        self.grows("MatMul and a scalar", 500, {"v0": numpy.ones((2, 4), numpy.float32)}, write)

    def test_a_concat_of_scalars(self):
        def write(count):
            names = [f"c{i}" for i in range(count)]
            self.save([node("Concat", ["x", *names], ["y"], axis=0)], [tensor("x", ["n"])],
                      [tensor("y", [None])],
                      {name: numpy.array([i], numpy.float32) for i, name in enumerate(names)})
        self.grows("Concat of constants", 5000, self.X, write)

    def test_a_concat_of_unknown_extents(self):
        def write(count):
            names = [f"x{i}" for i in range(count)]
            self.save([node("Concat", names, ["y"], axis=0)],
                      [tensor(name, [f"n{name}", 2]) for name in names], [tensor("y", [None, 2])])
        count = 500 // self.PART
        write(count)
        self.runs(f"Concat of {count} extents",
                  {f"x{i}": numpy.ones((2, 2), numpy.float32) for i in range(count)})

    def test_a_chain_of_softmax(self):
        def write(count):
            self.save([node("Softmax", [f"v{i}"], [f"v{i + 1}"], axis=-1) for i in range(count)],
                      [tensor("v0", ["n", 8])], [tensor(f"v{count}", ["n", 8])])
        self.grows("Softmax", 500, {"v0": numpy.ones((2, 8), numpy.float32)}, write)

    def test_many_branches(self):
        def write(count):
            def branch(op, source, result):
                return helper.make_graph([helper.make_node(op, [source], [result])], "branch", [],
                                         [tensor(result, ["n"])])

            nodes = [
                node("If", ["c"], [f"v{i + 1}"], then_branch=branch("Neg", f"v{i}", f"a{i}"),
                     else_branch=branch("Relu", f"v{i}", f"b{i}")) for i in range(count)]
            self.save(nodes,
                      [tensor("v0", ["n"]), tensor("c", [], TensorProto.BOOL)],
                      [tensor(f"v{count}", ["n"])])

        self.grows("Ifs one after the other", 2000, {"v0": self.X["x"], "c": numpy.array(True)},
                   write)

    def test_views_in_each_other(self):
        count = 400 // self.PART
        nodes = [
            each for i in range(count)
            for each in (node("Shape", [f"v{i}"], [f"s{i}"]),
                         node("Transpose", [f"v{i}"], [f"t{i}"], perm=[1, 2, 0]),
                         node("Reshape", [f"t{i}", "flat"], [f"f{i}"]),
                         node("Reshape", [f"f{i}", f"s{i}"], [f"v{i + 1}"]))]
        self.save(nodes, [tensor("v0", ["a", "b", "c"])], [tensor(f"v{count}", ["a", "b", "c"])],
                  {"flat": numpy.array([-1])})
        self.agree(v0=numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4))

    def test_a_high_rank(self):
        for rank in (33, 64):
            dims = [f"d{i}" for i in range(rank)]
            self.save([node("Neg", ["x"], ["y"])], [tensor("x", dims)], [tensor("y", dims)])
            self.compiles(f"rank {rank}")
            self.runs(f"rank {rank}", {"x": numpy.ones([1] * (rank - 2) + [2, 3], numpy.float32)})

    def test_deep_branches(self):
        """In the text form: ONNX's own messages end 100 levels deep, which are 31 branches."""
        self.write_branches(150)
        self.compiles("Ifs 150 deep", "ifs.anydim")
        for c, wanted in ((True, [-1, 2]), (False, [1, 0])):
            self.agree({"r0": numpy.array(wanted, numpy.float32)}, "ifs.anydim", c=numpy.array(c),
                       x=numpy.array([1, -2], numpy.float32))

    def write_branches(self, depth):
        text = "fn @main(%c: Tensor[(), bool], %x: Tensor[(n), f32]) {\n" +"".join(
            f"%r{i} = if(%c) then {{\n" for i in range(depth)) + f"%r{depth} = neg(%x)\n"
        text += "".join(f"yield %r{i + 1}\n}} else {{\n%e{i} = relu(%x)\nyield %e{i}\n}}\n"
                        for i in reversed(range(depth))) + "return %r0\n}\n"
        (self.folder / "ifs.anydim").write_text(text)

    def test_branches_too_deep(self):
        self.write_branches(300)
        self.refused(4, "this is nested more than 200 levels deep", "opt", "ifs.anydim")
        self.assertIn("| nesting of the text form | 200 levels |", documented())

    def test_onnx_branches_at_the_limit_of_messages(self):
        def branches(depth):
            if depth == 0:
                return [helper.make_node("Neg", ["x"], ["r0"])]
            then = helper.make_graph(branches(depth - 1), "then", [],
                                     [tensor(f"r{depth - 1}", ["n"])])
            otherwise = helper.make_graph([helper.make_node("Relu", ["x"], [f"e{depth}"])], "else",
                                          [], [tensor(f"e{depth}", ["n"])])
            return [
                helper.make_node("If", ["c"], [f"r{depth}"], then_branch=then,
                                 else_branch=otherwise)]

        for depth in (31, 32):
            self.save(branches(depth), [tensor("c", [], TensorProto.BOOL),
                                        tensor("x", ["n"])], [tensor(f"r{depth}", ["n"])])
            if depth == 31:
                self.compiles("31 Ifs of ONNX in each other")
            else:
                self.refused(4, "truncated, damaged, nested too deeply or of another format", "opt",
                             "m.onnx")


def documented():
    with open(LIMITS, encoding="utf8") as file:
        return file.read()


class Functions(HostileModels):
    OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    TOO_LARGE = "the model's functions make it larger than 100000 nodes or 1073741824 bytes"

    def functions(self, levels, calls):
        """Each calls the one below so many times: calls to the power of levels Neg nodes in all."""
        bodies = []
        for level in range(levels):
            op, domain = ("Neg", "") if level == 0 else (f"F{level - 1}", "own")
            values = ["a", *(f"m{i}" for i in range(1, calls)), "b"]
            bodies.append(
                helper.make_function("own", f"F{level}", ["a"], ["b"], [
                    helper.make_node(op, [values[i]], [values[i + 1]], domain=domain)
                    for i in range(calls)], self.OPSETS))
        self.save([helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="own", name="call")],
                  [tensor("x", ["n"])], [tensor("y", ["n"])], functions=bodies)

    def refused_within_little_memory(self, code, message):
        """Counted before anything is placed. (Sanitizers reserve more address space than any
        limit.)"""
        limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                  (512 << 20, 512 << 20))
        began = time.monotonic()
        said = self.refused(code, message, "opt", "m.onnx", preexec_fn=limit)
        self.assertEqual(said.count("\n"), 1, said)
        print(f"refused after {time.monotonic() - began:.1f} s: {message}", file=sys.stderr)

    def test_those_that_grow_are_refused_before_they_do(self):
        for levels in (16, 18, 40, 63):
            self.functions(levels, 2)
            self.refused_within_little_memory(3, self.TOO_LARGE)

    def test_those_that_fit_compute(self):
        self.functions(11, 2)
        self.agree({"y": numpy.array([1, -2], numpy.float32)}, x=numpy.array([1, -2],
                                                                             numpy.float32))

    def test_their_depth(self):
        self.functions(64, 1)
        self.agree({"y": numpy.array([-1], numpy.float32)}, x=numpy.array([1], numpy.float32))
        for levels in (65, 1000):
            self.functions(levels, 1)
            self.refused_within_little_memory(
                4,
                "calls a function of the model: calls nest more than 64 deep, or it calls itself")

    def test_their_bytes(self):
        """A weight of a MiB in a body that is called 2,000 times."""
        weight = numpy_helper.from_array(numpy.zeros(1 << 18, numpy.float32), "w")
        body = helper.make_function("own", "F", ["a"], ["b"], [
            helper.make_node("Constant", [], ["w"], value=weight),
            helper.make_node("Add", ["a", "w"], ["b"])], self.OPSETS)
        self.save(
            [helper.make_node("F", [f"v{i}"], [f"v{i + 1}"], domain="own") for i in range(2000)],
            [tensor("v0", [1 << 18])], [tensor("v2000", [1 << 18])], functions=[body])
        self.refused_within_little_memory(3, self.TOO_LARGE)

    def test_limits_are_as_documented(self):
        self.assertIn("| 100,000 nodes, 1 GiB, calls 64 deep; counted before anything is placed |",
                      documented())


class Files(HostileModels):
    """Limits of docs/limits.md that no other test meets."""

    def test_a_text_file_too_long(self):
        with open(self.folder / "long.json", "wb") as file:
            file.truncate((256 << 20) + 1)  # without blocks on the disk
        for words in (["tune", "--import", "long.json", "--db",
                       "own.db"], ["bench", "m.anydim", "--tokens", "long.json", "--batch", "1"]):
            self.refused(4, "long.json: its 268435457 bytes are more than 268435456", *words)
        self.assertIn("| a text file (the same, and lists of lengths) | 256 MiB |", documented())

    def test_a_header_too_long(self):
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"
        for length in (65536, 65537):
            (self.folder /
             "x.npy").write_bytes(b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") +
                                  header.ljust(length) + bytes(4))
            if length == 65536:
                self.assertEqual(
                    self.anydim("run", "m.anydim", "--input", "x=x.npy").stdout,
                    b"y: f32 (1) = 0\n")
            else:
                self.refused(4, "x.npy: its header is truncated or too long\n", "run", "m.anydim",
                             "--input", "x=x.npy")
        self.assertIn("| a .npy header | 64 KiB |", documented())

    def test_depth_of_json(self):
        for depth, message in ((64, 'is not "anydim tuning database"'),
                               (65, "it is no JSON, or nests too deep")):
            (self.folder / "deep.json").write_text('{"format": ' + "[" * (depth - 1) + "1" + "]" *
                                                   (depth - 1) + "}")
            self.refused(4, message, "tune", "--import", "deep.json", "--db", "own.db")
        self.assertIn("| JSON (tuning exports, traces, token files) | 64 levels |", documented())

    def test_names_and_messages(self):
        self.save([node("N" * 100000, ["x"], ["y"])], [tensor("x", ["n"])], [tensor("y", ["n"])])
        self.refused(3, "N" * 100, "run", "m.onnx")
        self.save([helper.make_node("Neg", ["x"], ["y"], name="v" * 5000, nonsense=1)],
                  [tensor("x", ["n"])], [tensor("y", ["n"])])
        self.refused(4, "v" * 200 + "...", "run", "m.onnx")
        self.assertIn("| a name in a message | 200 bytes, then `...` |", documented())


class Concats(HostileModels):
    def test_of_more_operands_than_a_kernel_joins(self):
        """Of different symbolic extents, along both axes; the groups come out right at their
        borders, also a group of one."""
        random = numpy.random.default_rng(7)
        for count, axis in ((33, 0), (34, -1)):
            names = [f"x{i}" for i in range(count)]
            dims = [[f"n{i}", "m"] if axis == 0 else ["m", f"n{i}"] for i in range(count)]
            self.save([node("Concat", names, ["y"], axis=axis)],
                      [tensor(*each) for each in zip(names, dims)], [tensor("y", [None, None])])
            extents = random.integers(0, 4, count)
            parts = [
                random.standard_normal((extent, 3) if axis == 0 else (3,
                                                                      extent)).astype(numpy.float32)
                for extent in extents]
            with self.subTest(count=count, axis=axis):
                self.agree({"y": numpy.concatenate(parts, axis)}, **dict(zip(names, parts)))

    def test_of_groups_of_groups(self):
        """1,100 operands of one value, between ops that fuse."""
        for axis in (0, 1):
            self.save([
                node("Neg", ["x"], ["n"]),
                node("Concat", (["n", "x"] * 550), ["c"], axis=axis),
                node("Abs", ["c"], ["y"])], [tensor("x", ["n", "m"])], [tensor("y", [None, None])])
            x = numpy.arange(-3, 3, dtype=numpy.float32).reshape(2, 3)
            with self.subTest(axis=axis):
                self.agree({"y": numpy.abs(numpy.concatenate([-x, x] * 550, axis))}, x=x)


class ElementTypes(HostileModels):
    # Of complex numbers; some versions of ONNX have floats of 6 bits as well.
    LACKING = [name for name in TensorProto.DataType.keys()
               if name.startswith(("COMPLEX", "FLOAT6"))]

    def test_there_are_some(self):
        self.assertLessEqual({"COMPLEX64", "COMPLEX128"}, set(self.LACKING))

    def refused_by_name(self, name):
        self.refused(3, f"has the element type {name}, which Anydim does not support\n", "run",
                     "m.onnx")

    def test_of_inputs(self):
        for name in self.LACKING:
            self.save([node("Identity", ["x"], ["y"])],
                      [tensor("x", ["n"], TensorProto.DataType.Value(name))],
                      [tensor("y", ["n"], TensorProto.DataType.Value(name))])
            self.refused_by_name(name)

    def test_of_constants(self):
        for name in self.LACKING:
            weight = TensorProto(name="w", data_type=TensorProto.DataType.Value(name), dims=[2],
                                 raw_data=bytes(2))
            self.save([node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], [], [tensor("y", [2])],
                      {"w": weight})
            self.refused_by_name(name)

    def test_of_casts(self):
        for name in self.LACKING:
            self.save([
                node("Cast", ["x"], ["t"], to=TensorProto.DataType.Value(name)),
                node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)], [tensor("x", ["n"])],
                      [tensor("y", ["n"])])
            self.refused_by_name(name)


class KnownBranches(HostileModels):
    """AffineGrid's function and its like hold a case for pictures and one for volumes; of a model
    of a known rank one of them could never run."""

    # What is wrong for a tensor of rank 4.
    WRONG = {
        "Transpose": node("Transpose", ["x"], ["v"],
                          perm=[0, 2, 3, 4, 1]), "Gather": node("Gather", ["x", "zero"], ["v"],
                                                                axis=4),
        "Squeeze": node("Squeeze", ["x", "axis"],
                        ["v"]), "MatMul": node("MatMul", ["x", "square"], ["v"]),
        "Concat": node("Concat", ["x", "square"], ["v"],
                       axis=1), "ReduceSum": node("ReduceSum", ["x", "axis"], ["v"], keepdims=0)}

    def branches(self, wrong, rank):
        """If the picture has so many dims: what is right, else what is wrong."""
        right = helper.make_graph([node("Relu", ["x"], ["u"])], "right", [], [tensor("u", None)])
        other = helper.make_graph([wrong], "other", [], [tensor("v", None)])
        self.save(
            [
                node("Shape", ["x"], ["shape"]),
                node("Size", ["shape"], ["rank"]),
                node("Equal", ["rank", "wanted"], ["picture"]),
                node("If", ["picture"], ["branch"], then_branch=right, else_branch=other),
                node("Neg", ["branch"], ["y"])], [tensor("x", ["n", "c", "h", 4])],
            [tensor("y", None)], {
                "wanted": numpy.array(rank), "zero": numpy.array(0), "axis": numpy.array([4]),
                "square": numpy.eye(7, dtype=numpy.float32)})

    def test_one_that_never_runs_may_be_wrong(self):
        x = numpy.arange(-12, 12, dtype=numpy.float32).reshape(1, 2, 3, 4)
        for op, wrong in self.WRONG.items():
            with self.subTest(op=op):
                self.branches(wrong, 4)
                self.agree({"y": -numpy.maximum(x, 0)}, x=x)

    def test_the_one_that_runs_may_not(self):
        x = numpy.ones((1, 2, 3, 4), numpy.float32)
        for op, wrong in self.WRONG.items():
            with self.subTest(op=op):
                self.branches(wrong, 5)
                self.refused(4, f"'the_{op}'", "opt", "m.onnx")
        code, said, _ = self.run_model("reference", x=x)
        self.assertEqual(code, 4, said)

    def test_of_an_unknown_condition_neither_may(self):
        right = helper.make_graph([node("Relu", ["x"], ["u"])], "right", [], [tensor("u", None)])
        other = helper.make_graph([self.WRONG["Transpose"]], "other", [], [tensor("v", None)])
        self.save([node("If", ["c"], ["y"], then_branch=right, else_branch=other)],
                  [tensor("c", [], TensorProto.BOOL),
                   tensor("x", ["n", "c", "h", "w"])], [tensor("y", None)])
        self.refused(4, "'the_Transpose'", "opt", "m.onnx")


if __name__ == "__main__":
    unittest.main()
