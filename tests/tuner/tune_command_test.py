"""anydim tune from outside: a whole run, a second one, an interruption, bad input, recorded traces, and many ranks. ANYDIM names the command."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

MODEL = """fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {
  %w = constant(f32 (48, 32) @random(1))
  %p = matmul(%x, %w)
  %y = relu(%p)
  return %y
}
"""
OTHER = MODEL.replace("48", "40")


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_tune_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"), LC_ALL="C.UTF-8", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
        (self.folder / "model.anydim").write_text(MODEL)
        (self.folder / "other.anydim").write_text(OTHER)

    def anydim(self, *words, prefix=()):
        return subprocess.run([*prefix, os.environ["ANYDIM"], *map(str, words)], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300)

    def tune(self, *words, prefix=()):
        done = self.anydim("tune", "model.anydim", "--distribution", "uniform(4, 60)", "--db", "t.db", "--threads", "1", "--points", "2", *words, prefix=prefix)
        return done

    def refused(self, code, message, *words):
        done = self.anydim("tune", *words, "--db", "t.db")
        self.assertEqual(done.stderr, f"anydim: {message}\n")
        self.assertEqual(done.returncode, code)

    def test_second_run_does_nothing(self):
        first = self.tune("--json", "--budget", "8s")
        self.assertEqual(first.returncode, 0, first.stderr)
        result = json.loads(first.stdout)
        self.assertGreater(result["trials"], 3)
        self.assertLessEqual(result["expected_ms"], result["default_ms"] * 1.001)
        self.assertLessEqual(result["lower_bound_ms"], result["expected_ms"] * 1.001)
        self.assertEqual(result["failures"], {})
        again = json.loads(self.tune("--json", "--budget", "8s").stdout)
        self.assertTrue(again["nothing_to_do"])
        self.assertEqual(again["trials"], 0)
        self.assertIn("nothing to do", self.tune("--budget", "8s").stdout)
        # Another K chooses again, from what is known.
        more = json.loads(self.tune("--json", "--budget", "8s", "--max-kernels", "3").stdout)
        self.assertGreater(more["reused"], 3)
        self.assertEqual(self.tune("--quiet", "--budget", "8s", "--max-kernels", "4").stderr, "")

    def test_interruption_keeps_what_was_measured(self):
        command = [os.environ["ANYDIM"], "tune", "model.anydim", "--distribution", "uniform(4, 60)", "--db", "t.db", "--threads", "1", "--budget", "100s", "--exhaustive", "--json"]
        running = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(8)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
        self.assertEqual(running.returncode, -signal.SIGINT)
        stopped = json.loads(out)
        self.assertTrue(stopped["interrupted"])
        self.assertGreater(stopped["trials"], 0)
        resumed = self.anydim("tune", "model.anydim", "--distribution", "uniform(4, 60)", "--db", "t.db", "--threads", "1", "--budget", "3s", "--resume", "--json")
        self.assertGreater(json.loads(resumed.stdout)["reused"], 0)

    def test_bad_input(self):
        one_of = "tune needs one of --lengths FILE, --trace FILE and --distribution TEXT: the sizes to tune for"
        self.refused(2, one_of, "model.anydim")
        self.refused(2, one_of, "model.anydim", "--trace", "a", "--lengths", "b")
        self.refused(2, "--budget 0 is no time above 0, such as 90s, 10m or 2h", "model.anydim", "--distribution", "constant(3)", "--budget", "0")
        self.refused(5, "constant(99) gives n = 99, but the model takes n in [1, 64]", "model.anydim", "--distribution", "constant(99)")
        self.refused(4, "none.txt: there is no such file", "model.anydim", "--lengths", "none.txt")
        (self.folder / "empty.txt").write_text("")
        self.refused(4, "empty.txt: there is no length in it", "model.anydim", "--lengths", "empty.txt")
        self.refused(2, "--max-kernels 0 is below the 1 regions of the model, each of which needs one kernel; give 1 or more",
                     "model.anydim", "--distribution", "constant(3)", "--max-kernels", "0")
        done = self.anydim("tune", "model.anydim", "--distribution", "constant(3)", "--resume", "--db", "none.db")
        self.assertEqual((done.returncode, done.stderr), (4, "anydim: none.db: there is no such database to resume from\n"))

    def test_traces_follow_calls(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 48), }".ljust(117) + "\n"
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(5 * 48 * 4))
        for _ in range(2):
            self.assertEqual(self.anydim("run", "model.anydim", "--input", "x=x.npy", "--record", "trace.json").returncode, 0)
        self.assertEqual(json.loads((self.folder / "trace.json").read_text())["bins"], [[5, 0, 2]])
        done = self.anydim("tune", "model.anydim", "--trace", "trace.json", "--db", "t.db", "--budget", "3s", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(4, "the trace is of another model: its inputs are x: f32 (n, 48); this model's are x: f32 (n, 40)", "other.anydim", "--trace", "trace.json")
        refused = self.anydim("run", "other.anydim", "--input", "x=x.npy", "--record", "trace.json")
        self.assertNotEqual(refused.returncode, 0)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_ranks_share_one_run(self):
        for ranks in (1, 2, 4):
            done = self.anydim("tune", "model.anydim", "--distribution", "uniform(4, 60)", "--db", f"{ranks}.db", "--threads", "1", "--points", "2", "--budget", "10s", "--json",
                               prefix=("mpirun", "-n", str(ranks)))
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)  # of rank 0 alone
            self.assertGreater(result["trials"], 3)
            self.assertEqual(result["failures"], {})
        # A rank with another number of threads measures something else: it is sent home.
        words = ["tune", "model.anydim", "--distribution", "uniform(4, 60)", "--points", "2", "--budget", "5s", "--json", "--db", "mixed.db", "--threads"]
        done = subprocess.run(["mpirun", "-n", "2", os.environ["ANYDIM"], *words, "1", ":", "-n", "1", os.environ["ANYDIM"], *words, "2"], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=300)
        self.assertIn("rank 2 measures nothing: its environment is not rank 0's: threads 2 instead of 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
