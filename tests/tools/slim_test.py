"""The slim command (ANYDIM names it): its size, what it needs to start, what it still does, what it
says of the rest. Run by scripts/test.sh."""
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

SLIM = os.environ["ANYDIM"]
MOST_BYTES = 40 << 20
DOUBLE = "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32] {\n  %y = add(%x, %x)\n  return %y\n}\n"


def write_npy(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}f", *values))


def run(*arguments):
    return subprocess.run([SLIM, *map(str, arguments)], capture_output=True, text=True, check=False)


class Slim(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_slim_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "double.txt"
        self.model.write_text(DOUBLE)

    def test_it_is_small_and_needs_the_c_library_alone(self):
        self.assertLess(os.stat(SLIM).st_size, MOST_BYTES)
        listed = subprocess.run(["ldd", SLIM], capture_output=True, text=True, check=True).stdout
        needed = {
            line.split()[0].rsplit("/", 1)[-1].split(".so")[0] for line in listed.splitlines()}
        self.assertLessEqual(needed, {
            "linux-vdso", "libc", "libm", "libpthread", "libdl", "librt", "ld-linux-x86-64"})

    def test_it_reads_text_and_evaluates_it(self):
        write_npy(self.folder / "x.npy", [1.5, -2.0, 0.25])
        done = run("run", self.model, "--executor", "reference", "--input",
                   f"x={self.folder / 'x.npy'}", "--output", self.folder / "out", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        (result,) = (self.folder / "out").glob("*.npy")
        self.assertEqual(struct.unpack("<3f", result.read_bytes()[-12:]), (3.0, -4.0, 0.5))

    def test_it_says_what_is_not_built_in(self):
        onnx = self.folder / "model.onnx"
        onnx.write_bytes(b"\x08\x07")
        for arguments, said in ((("opt", onnx), "ONNX"), (("explain", self.model),
                                                          "--device cuda")):
            done = run(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(said, done.stderr)

    def test_without_a_driver_cuda_is_a_clear_error(self):
        done = run("explain", self.model, "--device", "cuda")
        if done.returncode != 0:  # a machine without a GPU
            self.assertEqual(done.returncode, 6)
            self.assertIn("driver", done.stderr)


if __name__ == "__main__":
    unittest.main()
