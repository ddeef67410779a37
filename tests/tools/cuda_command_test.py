"""The command on a fake GPU: a driver over the PTX interpreter (tests/support/fake_libcuda.cpp),
real NVRTC. What a user sees of every fault, and that what comes after it works. ANYDIM names the
command, CAMPAIGN_WORKER the worker of the GPU campaign, FAKE_LIBCUDA the driver's folder, NVRTC the
compiler's."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

from bad_input_test import npy

PROGRAM = """fn @main(%x: Tensor[(n, 8), f32]) where n in [0, 1000] {
  %w = constant(f32 (8, 16) @random(1))
  %z = matmul(%x, %w)
  %p = softmax(%z) {axis = -1}
  return %p
}
"""
USE_THE_CPU = "use --device cpu"


class OnAFakeGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_gpu_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {}
        (self.folder / "m.anydim").write_text(PROGRAM)
        self.rows(3)

    def rows(self, count):
        npy(self.folder / "x.npy", "<f4", (count, 8),
            struct.pack(f"<{8 * count}f", *(0.25 * (i % 7) - 0.5 for i in range(8 * count))))

    def anydim(self, *words, program="ANYDIM", gpu="", libraries=(), text=None):
        path = ":".join([
            *map(str, libraries), os.environ["FAKE_LIBCUDA"], os.environ["NVRTC"],
            os.environ.get("LD_LIBRARY_PATH", "")])
        environment = {
            **os.environ, **self.environment, "HOME": str(self.folder), "LD_LIBRARY_PATH": path,
            "ANYDIM_FAKE_GPU": gpu}
        for name in ("CUDA_PATH", "CUDA_HOME", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        return subprocess.run([os.environ[program], *words], cwd=self.folder, env=environment,
                              input=text, capture_output=True, text=True, timeout=120, check=False)

    def run_program(self, device="cuda", **more):
        return self.anydim("run", "m.anydim", "--input", "x=x.npy", "--device", device,
                           "--cache-dir", "kernels", **more)

    def refused(self, code, pattern, **more):
        done = self.run_program(**more)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], f"^anydim: {pattern}$")
        return done

    def works(self, **more):
        done = self.run_program(**more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_results_are_those_of_the_processor(self):
        for count in (3, 0, 70):
            self.rows(count)
            expected = self.works(device="cpu")
            self.assertEqual(self.works(), expected)
            self.assertEqual(self.works(), expected)  # kernels of the cache

    def test_a_profiler_is_told_of_calls_and_launches(self):
        self.environment["NVTX_INJECTION64_PATH"] = os.environ["FAKE_LIBCUDA"] + "/libnvtx_tool.so"
        self.works()  # which does not take part: it has no file to write to
        self.environment["ANYDIM_FAKE_NVTX"] = "ranges.txt"
        self.works()
        call, *launches = (self.folder / "ranges.txt").read_text().splitlines()
        self.assertEqual(call, "anydim call")
        self.assertEqual([launch.split("_")[0] for launch in launches], ["  matmul", "  softmax"])
        self.environment["NVTX_INJECTION64_PATH"] = "/nowhere.so"
        self.works()

    def test_doctor_describes_the_gpu(self):
        self.assertRegex(
            self.anydim("doctor").stdout,
            r"gpu +Fake GPU, compute capability 13\.0, 2 multiprocessors at up to 1000 MHz, 1073741824 bytes, driver for CUDA 13\.0\n"
        )

    def test_products_beside_the_librarys(self):
        """A kernel takes 1 us here, the library's first choice 3 and its best 2
        (tests/support/fake_cublaslt.h)."""
        words = ("bench", "--op", "matmul", "--device", "cuda", "--policy", "symbolic",
                 "--cache-dir", "kernels", "--vs", "cublas", "--library-path",
                 os.environ["FAKE_LIBCUDA"] + "/libcuda.so.1", "5,64,32")
        told = self.anydim(*words, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        shape, = json.loads(told.stdout)["shapes"]
        for each in (shape, shape["warm"], shape["cold"]):
            for name, value in (("us", 1), ("heuristic_us", 3), ("best_us", 2), ("ratio", 3),
                                ("ratio_to_best", 2)):
                self.assertAlmostEqual(each[name], value, places=3)
        self.assertEqual(shape["algorithms"], 3)
        self.assertTrue(0 < shape["largest_difference"] < 0.01, shape)
        shown = self.anydim(*words)
        self.assertRegex(
            shown.stdout,
            r"5 x +64 x +32 +1\.00 us .* cublas +3\.00 us  ratio 3\.000, to the best of 3 2\.000; warm 1\.00 us 3\.000, cold 1\.00 us 3\.000  difference \d"
        )
        missing = self.anydim(*words[:-3], "--library-path", "/nowhere/libcublasLt.so", words[-1])
        self.assertEqual(missing.returncode, 6)
        self.assertIn("/nowhere/libcublasLt.so", missing.stderr)

    def test_no_device(self):
        self.refused(6, f"the CUDA driver finds no GPU; {USE_THE_CPU}", gpu="devices=0")

    def test_an_old_driver(self):
        self.refused(
            6,
            r"the CUDA driver offers version 11\.8, but 12\.0 is needed; install a newer driver \(525 or newer\)",
            gpu="version=11080")

    def test_an_old_device(self):
        self.refused(
            6,
            rf"the GPU \(Fake GPU\) has compute capability 7\.5; kernels need 8\.0 or newer; {USE_THE_CPU}",
            gpu="capability=75")

    def test_memory_exhausted(self):
        self.rows(1000)
        self.refused(
            6,
            r"the GPU's memory is too small for .*: \d+ of 20000 bytes are free; give smaller inputs or end other programs that use it",
            gpu="memory=20000")
        self.rows(1)
        self.works(gpu="memory=20000")

    def test_nvrtc_missing(self):
        broken = self.folder / "broken"
        broken.mkdir()
        for version in (12, 13):
            (broken / f"libnvrtc.so.{version}").write_bytes(b"")
        done = self.refused(6, ".*", libraries=[broken])
        self.assertIn("nvidia-cuda-nvrtc", done.stderr)
        # Kernels that were compiled before serve without it; of those that were not, it tells.
        expected = self.works()
        self.assertEqual(self.run_program(libraries=[broken]).stdout, expected)

    def test_a_size_outside_of_the_declared_range(self):
        self.rows(1001)
        self.refused(5, r"input 'x', dimension 0 \(n\): expected at most 1000, got 1001.*")
        self.rows(1000)
        self.works()

    def test_a_damaged_or_foreign_cache_is_only_a_miss(self):
        expected = self.works()
        kernels = sorted((self.folder / "kernels").glob("*.kernel"))
        self.assertTrue(kernels)
        for kernel in kernels:
            kernel.write_bytes(kernel.read_bytes()[:-1] + b"!")
        done = self.run_program()
        self.assertEqual((done.returncode, done.stdout), (0, expected))
        self.assertIn("is ignored: its hash does not fit", done.stderr)
        for kernel in kernels:
            kernel.write_bytes(b"a letter, no kernel")
        done = self.run_program()
        self.assertEqual((done.returncode, done.stdout), (0, expected))
        self.assertIn("is ignored: it is ", done.stderr)

    def test_after_a_fault_the_process_ends_and_another_works(self):
        for number, name in ((700, "CUDA_ERROR_ILLEGAL_ADDRESS"), (719, "CUDA_ERROR_LAUNCH_FAILED"),
                             (702, "CUDA error 702")):
            self.refused(70, rf"running region matmul_1, schedule .*, s0 = 3: {name}.*",
                         gpu=f"fault=0 result={number}")
        # In a captured graph.
        done = self.anydim("explain", "m.anydim", "--shape", "x=3x8", "--repeat", "20", "--device",
                           "cuda", "--cache-dir", "kernels", gpu="fault=7 result=719")
        self.assertEqual((done.returncode, done.stdout), (70, ""), done.stderr)
        self.assertIn("one of its launches failed (region matmul_1", done.stderr)
        self.works()

    def tune(self, gpu=""):
        """Kernels that seem to take long are timed in few turns."""
        done = self.anydim("tune", "m.anydim", "--device", "cuda", "--distribution",
                           "uniform(1, 6)", "--points", "2", "--threads", "3", "--budget", "60s",
                           "--trials", "6", "--db", "t.db", "--json",
                           gpu="kernel_us=20000 " + gpu)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_tuned_kernels_are_found_again(self):
        """What times are on the interpreter means nothing; that candidates ran and were right
        does."""
        result = self.tune()
        self.assertGreater(result["trials"], 2)
        self.assertEqual((result["failures"], result["worker_restarts"]), ({}, 0))
        words = ("explain", "m.anydim", "--shape", "x=3x8", "--device", "cuda", "--json")
        with_tables = self.anydim(*words, "--db", "t.db")
        self.assertEqual((with_tables.returncode, with_tables.stderr), (0, ""))
        self.assertIn("tuned, measured", with_tables.stdout)
        self.assertNotIn("tuned, measured", self.anydim(*words).stdout)
        # The database has nothing of another part.
        other = self.anydim(*words, "--db", "t.db", gpu="memory=2000000000000")
        self.assertIn("the nearest that it has is for device GPU", other.stderr)

    def test_a_fault_while_tuning_is_the_candidates(self):
        result = self.tune(gpu="fault=80")
        self.assertGreater(result["failures"].get("crashed", 0), 0)
        self.assertGreater(result["worker_restarts"], 0)

    def test_a_worker_ends_after_a_fault_and_says_which(self):
        cases = [{"id": f"case {i}", "kind": "empty"} for i in range(3)]
        done = self.anydim("--device", "cuda", "--cache-dir", "kernels", program="CAMPAIGN_WORKER",
                           gpu="fault=4 result=719",
                           text="".join(json.dumps(case) + "\n" for case in cases))
        self.assertEqual(done.returncode, 70, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(said[1]["right"])
        self.assertEqual((said[-1]["end"], said[-1]["exit_code"]), ("case 1", 70))
        self.assertIn("CUDA_ERROR_LAUNCH_FAILED", said[-1]["error"])
        self.assertNotIn("case 2", done.stdout)

    def worker(self, cases, *words):
        """What became of each case."""
        done = self.anydim(
            *words, "--cache-dir", "kernels", program="CAMPAIGN_WORKER",
            text="".join(json.dumps({"id": str(i), **case}) + "\n" for i, case in enumerate(cases)))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [said for said in map(json.loads, done.stdout.splitlines()) if "end" in said]

    def test_kernels_for_a_gpu_that_is_not_here(self):
        """A product, attention over equal and ragged lengths, a program: compiled for a device,
        then found in the cache; with the checked forms of those that wait."""
        cases = [{
            "kind": "matmul", "n": 64, "k": 64, "m": [40], "copies": 2, "policy": "symbolic",
            "schedule": "matmul_wgmma"}, {
                "kind": "attention", "shapes": [[1, 2, 20, 32]],
                "ragged": [{"heads": 2, "head": 32, "lengths": [3, 17]}], "policy": "symbolic"}, {
                    "kind": "program", "text": PROGRAM, "inputs": {"x": {"dims": [3, 8]}},
                    "checked": True, "policy": "symbolic"}, {
                        "kind": "program", "text": PROGRAM, "inputs": {"x": {"dims": [3, 8]}},
                        "schedule": "attention_mma"}, {"kind": "information"}]
        *first, absent, information = self.worker(cases, "--plan", "h100")
        self.assertEqual([(each["entries"], each["compiled"], each["failed"]) for each in first],
                         [(1, 1, 0), (2, 2, 0), (2, 2, 0)])
        self.assertTrue(absent["absent"])
        self.assertEqual(information["code target"],
                         "cuda sm_90a 132 multiprocessors 232448 233472 bytes shared")
        self.assertGreaterEqual(len(list((self.folder / "kernels").glob("*.kernel"))), 6)
        again = self.worker(cases[:3], "--plan", "h200")  # which runs the same machine code
        self.assertEqual([(each["entries"], each["compiled"], each["failed"]) for each in again],
                         [(1, 0, 0), (2, 0, 0), (2, 0, 0)])

    def test_device_functions_of_a_folder(self):
        def refused(pattern):
            done = self.anydim("--plan", "h100", "--device-text", "text", program="CAMPAIGN_WORKER",
                               text="")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, pattern)

        text = self.folder / "text"
        refused(r"^campaign_worker: text: no \*\.cuh is there: No such file or directory\n$")
        text.mkdir()
        refused(r"^campaign_worker: text: no \*\.cuh is there\n$")
        (text / "matmul.cuh").write_text("")
        refused(
            r"^campaign_worker: text/matmul\.cuh: kernels include no such piece; codegen_cuda/device has those that they do\n$"
        )
        (text / "matmul.cuh").unlink()
        root = pathlib.Path(__file__).resolve().parents[2]
        prelude = (root / "codegen_cuda/device/prelude.cuh").read_text()
        case = {"kind": "program", "text": PROGRAM, "inputs": {"x": {"dims": [3, 8]}}}
        plain = self.worker([{"kind": "information"}, case], "--plan", "h100")
        generators, compiled = {plain[0]["code generator"]}, [plain[1]["compiled"]]
        for more in ("// one", "// another", "// another"):
            (text / "prelude.cuh").write_text(f"{prelude}{more}\n")
            information, ended = self.worker([{"kind": "information"}, case], "--plan", "h100",
                                             "--device-text", "text")
            generators.add(information["code generator"])
            compiled.append(ended["compiled"])
        # Kernels of one text never serve another.
        self.assertEqual(len(generators), 3)
        self.assertEqual([count > 0 for count in compiled], [True, True, True, False])
        # What does not compile is a fault of this program, after which it ends.
        (text / "prelude.cuh").write_text(f"{prelude}#error this is no device function\n")
        done = self.anydim("--plan", "h100", "--device-text", "text", program="CAMPAIGN_WORKER",
                           text=json.dumps({"id": "x", **case}) + "\n")
        self.assertEqual(done.returncode, 70)
        self.assertIn("this is no device function", done.stdout)


if __name__ == "__main__":
    unittest.main()
