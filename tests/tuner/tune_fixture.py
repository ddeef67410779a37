"""What tests of `anydim tune` share: models, budgets, and a folder in which the command runs."""
import json
import os
import pathlib
import shutil
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
# Products of bf16 operands, which a GPU's tensor cores take.
HALF = MODEL.replace("f32", "bf16")
# One product in a loop's body, one in a function that is called.
LOOP = """fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {
  %trips = constant(i64 () [3])
  %w = constant(f32 (48, 48) @random(1))
  %last = loop(%trips, none, %x) body(%i, %on, %carried) {
    %p = matmul(%carried, %w)
    %t = tanh(%p)
    yield %on, %t
  }
  %y = call @end(%last)
  return %y
}

fn @end(%x: Tensor[(m, 48), f32]) -> Tensor[(m, 32), f32] where m in [1, 64] {
  %w = constant(f32 (48, 32) @random(2))
  %p = matmul(%x, %w)
  %y = relu(%p)
  return %y
}
"""


# How many rows the product has is known only once the mask has been read.
CHOSEN_ROWS = """fn @main(%x: Tensor[(n, 48), f32], %keep: Tensor[(n), bool]) where n in [1, 4096] {
  %w = constant(f32 (48, 32) @random(1))
  %rows = compress(%x, %keep) {axis = 0}
  %y = matmul(%rows, %w)
  return %y
}
"""


def npy(descr, dims, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(dims)}, }}".ljust(
        117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def trials(number):
    """A budget that also a loaded machine can keep to: it is the number of candidates that ends the
    search, and the time what ends the regret report."""
    return ("--budget", "5s", "--trials", str(number))


class TuneTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_tune_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                LC_ALL="C.UTF-8", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                OMPI_MCA_rmaps_base_oversubscribe="1",
                                OMPI_MCA_btl_vader_single_copy_mechanism="none")
        (self.folder / "model.anydim").write_text(MODEL)
        (self.folder / "other.anydim").write_text(OTHER)
        (self.folder / "half.anydim").write_text(HALF)
        (self.folder / "loop.anydim").write_text(LOOP)

    def anydim(self, *words, prefix=()):
        return subprocess.run([*prefix, os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=300)

    def tune(self, *words, prefix=()):
        own = () if "--db" in words else ("--db", "t.db")
        return self.anydim("tune", "model.anydim", "--distribution", "uniform(4, 60)", *own,
                           "--threads", "1", "--points", "2", *words, prefix=prefix)

    def refused(self, code, message, *words):
        done = self.anydim("tune", *words, "--db", "t.db")
        self.assertEqual(done.stderr, f"anydim: {message}\n")
        self.assertEqual(done.returncode, code)

    def shown(self, database):
        done = self.anydim("tune", "--show", "--json", "--db", database)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tables"]

    def start(self, *words, launcher=(), **more):
        """A run that takes its time, once it has measured something; "--db" FILE comes first among
        the words."""
        command = [
            *launcher, os.environ["ANYDIM"], "tune", "model.anydim", "--distribution",
            "uniform(4, 60)", "--points", "2", "--threads", "1", "--exhaustive", "--json", *words]
        running = subprocess.Popen(command, cwd=self.folder, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **more)
        self.addCleanup(running.kill)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done = self.anydim("tune", "--show", "--json", *words[:2])
            if done.returncode == 0 and json.loads(done.stdout)["measurements"] > 4:
                return running
        self.fail("nothing was measured")

    def resumes(self, *words):
        done = self.tune("--budget", "2s", "--resume", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["reused"], 1)
