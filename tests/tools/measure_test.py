"""What measures and shows models: bench, explain --html, compare, --trace. ANYDIM names the
command; only Python's own library is needed."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

from bad_input_test import npy

MODEL = """fn @main(%x: Tensor[(n, 8), f32], %i: Tensor[(n), i64]) where n in [0, 1000] {
  %w = constant(f32 (8, 16) @random(1))
  %t = constant(f32 (10, 16) @random(2))
  %z = matmul(%x, %w)
  %g = gather(%t, %i) {axis = 0}
  %s = add(%z, %g)
  %p = softmax(%s) {axis = -1}
  return %p
}
"""


class Measure(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_measure_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                LC_ALL="C.UTF-8")
        (self.folder / "m.anydim").write_text(MODEL)

    def anydim(self, *words, code=0, **more):
        done = subprocess.run([os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env={**self.environment, **more}, timeout=300, check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done


class Bench(Measure):
    def test_any_model_on_a_shape(self):
        words = ("bench", "m.anydim", "--shape", "x=5x8", "--iterations", 7, "--duration", 0,
                 "--warm-up", 0)
        figures = json.loads(self.anydim(*words, "--streams", 3, "--json").stdout)
        self.assertEqual((figures["streams"], figures["calls"]), (3, 21))
        times = [figures[f"{name}_ms"] for name in ("min", "p50", "p90", "p99", "max")]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)
        self.assertTrue(times[0] <= figures["mean_ms"] <= times[-1])
        self.assertGreaterEqual(figures["seconds"], 1e-3 * figures["max_ms"])
        self.assertAlmostEqual(figures["calls_per_s"], 21 / figures["seconds"], places=3)
        text = self.anydim(*words).stdout
        self.assertRegex(text, r"inputs +x: f32 \(5, 8\)\n +i: i64 \(5\)\n")
        self.assertRegex(text, r"\ncalls +7\n")

    def test_it_lasts_as_long_as_it_is_told(self):
        figures = json.loads(
            self.anydim("bench", "m.anydim", "--shape", "i=2", "--duration", 0.5, "--json").stdout)
        self.assertGreaterEqual(figures["seconds"], 0.5)
        self.assertGreater(figures["calls"], 10)

    def test_inputs_of_files_are_used(self):
        # The table has ten rows.
        npy(self.folder / "i.npy", "<i8", (3,), struct.pack("<3q", 0, 9, 10))
        words = ("bench", "m.anydim", "--input", "i=i.npy", "--duration", 0)
        self.assertIn("10", self.anydim(*words, code=5).stderr)
        npy(self.folder / "i.npy", "<i8", (3,), struct.pack("<3q", 0, 9, 5))
        self.assertRegex(self.anydim(*words).stdout, r"x: f32 \(3, 8\)")
        self.assertIn("is given by --shape and by --input",
                      self.anydim(*words, "--shape", "i=3", code=2).stderr)
        self.assertIn("--shape: dimension 0 of input 'i' cannot be 3: 'n' is 4 in another place",
                      self.anydim(*words, "--shape", "x=4x8", code=5).stderr)
        npy(self.folder / "i.npy", "<f4", (3,), bytes(12))
        self.assertIn("i64", self.anydim(*words, code=5).stderr)

    def test_streams_that_fail_end_together(self):
        (self.folder / "check.anydim").write_text(
            "fn @main(%x: Tensor[(n), f32]) {\n  %s = shape_of(%x)\n  %k = constant(i64 (1) [4])\n  %y = dyn.reshape(%x, %k)\n  return %y\n}\n"
        )
        self.anydim("bench", "check.anydim", "--shape", "x=4", "--streams", 4, "--duration", 0)
        self.anydim("bench", "check.anydim", "--shape", "x=5", "--streams", 4, code=5)

    def test_a_bench_can_be_traced(self):
        self.anydim("bench", "m.anydim", "--shape", "x=5x8", "--streams", 2, "--iterations", 5,
                    "--duration", 0, "--warm-up", 0, "--trace", "trace.json")
        calls = [
            event for event in json.loads((self.folder / "trace.json").read_text())["traceEvents"]
            if event.get("cat") == "call"]
        self.assertEqual(len(calls), 1 + 2 * (1 + 5))
        self.assertEqual(len({call["tid"] for call in calls}), 2)


class Explain(Measure):
    def test_a_page_refers_to_nothing_outside(self):
        self.assertEqual(
            self.anydim("explain", "m.anydim", "--shape", "x=5x8", "--html", "page.html").stdout,
            "page.html\n")
        page = (self.folder / "page.html").read_text()
        self.assertEqual(page.count("://"), page.count("http://www.w3.org/2000/svg"))
        for part in ("<title>m.anydim</title>", 'id="timeline"', 'id="roofline"', "bucket [",
                     "of the roofline", "this call: 5"):
            self.assertIn(part, page)
        json.loads(
            self.anydim("explain", "m.anydim", "--shape", "x=5x8", "--html", "page.html",
                        "--json").stdout)

    def test_a_page_that_cannot_be_written(self):
        for place, said in ((".", "it is no regular file"), ("no/page.html",
                                                             "No such file or directory")):
            self.assertIn(
                f"anydim: {place}: cannot be written: {said}",
                self.anydim("explain", "m.anydim", "--shape", "x=5x8", "--html", place,
                            code=7).stderr)


    def test_numbers_of_threads_that_are_not_here(self):
        words = ("explain", "m.anydim", "--shape", "x=900x8", "--at-threads", "1,16,64")
        told = json.loads(self.anydim(*words, "--json").stdout)
        self.assertEqual([at["threads"] for at in told["scaling"]], [1, 16, 64])
        for at in told["scaling"]:
            self.assertEqual(len(at["launches"]), len(told["launches"]))
            self.assertAlmostEqual(at["modelled_us"],
                                   sum(launch["modelled_us"] for launch in at["launches"]))
            for launch in at["launches"]:
                self.assertGreaterEqual(launch["tasks"], 1)
        self.assertEqual(told["scaling"][0]["efficiency"], 1)
        self.assertLess(told["scaling"][2]["efficiency"], told["scaling"][1]["efficiency"])
        text = self.anydim(*words).stdout
        self.assertRegex(text, r"\non 16 threads, by the cost model: [0-9.]+ us, efficiency \d+ %\n"
                         r"    1 x \w+: \d+ tasks, [0-9.]+ us, efficiency \d+ %; \w+ ")
        self.assertNotIn("by the cost model:", self.anydim(*words[:4]).stdout)


class Compare(Measure):
    def fake(self, text):
        """An interpreter whose onnxruntime is ours."""
        (self.folder / "onnxruntime.py").write_text(text)
        (self.folder / "numpy.py").write_text("")
        return {"PYTHONPATH": str(self.folder)}

    def test_what_is_missing_is_told(self):
        said = self.anydim("compare", "m.anydim", "--shape", "x=5x8", "--python", "/nowhere/python",
                           code=6).stderr
        self.assertIn(
            "install it with `/nowhere/python -m pip install onnxruntime`, or name another interpreter with --python",
            said)
        said = self.anydim("compare", "m.anydim", "--shape", "x=5x8", code=6,
                           **self.fake("raise ImportError('no such package')")).stderr
        self.assertIn("compare needs ONNX Runtime in 'python3' (no such package): install it with",
                      said)

    def test_what_onnx_runtime_refuses_is_told(self):
        said = self.anydim(
            "compare", "m.anydim", "--shape", "x=5x8", code=3,
            **self.fake(
                "class SessionOptions: pass\ndef InferenceSession(*a, **b): raise ValueError('no model')\n"
            )).stderr
        self.assertEqual(said, "anydim: ONNX Runtime: ValueError: no model\n")


if __name__ == "__main__":
    unittest.main()
