"""The wheel: what is in it and what it needs, and that it works where pip puts it, in an
environment that has nothing else but NumPy.

usage: wheel_test.py (ANYDIM names the command; run by CTest, after the build that filled the
compiler cache)
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000
PROGRAM = """
import sys
import anydim, numpy as np
model = anydim.compile(open("m.anydim", "rb").read(), cache_dir="kernels", threads=2)
x = np.arange(6, dtype="float32").reshape(2, 3)
assert (model.run({"x": x})["y"] == x.T).all()
print(anydim.__version__, anydim.__file__)
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}))
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900,
                          **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = pathlib.Path(cls.folder.name)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        cls.wheel = ROOT / run(ROOT / "scripts/python_wheel.sh", cls.place / "wheels",
                               env=environment).strip().splitlines()[-1]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_what_is_in_it(self):
        self.assertRegex(self.wheel.name,
                         r"^anydim-[0-9.]+-cp3\d+-cp3\d+-manylinux_2_36_x86_64\.whl$")
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        with zipfile.ZipFile(self.wheel) as wheel:
            names = [
                name for name in wheel.namelist()
                if not name.endswith("/") and ".dist-info/" not in name]
        sources = [
            f"anydim/{file.name}" for file in (ROOT / "python/anydim").iterdir()
            if file.is_file() and file.name != "README.md"]
        libraries = [name for name in names if ".so" in name]
        self.assertEqual(sorted(names), sorted(sources + libraries))
        self.assertEqual(sorted(name.split("-")[0].split(".cpython")[0] for name in libraries),
                         ["anydim.libs/libprotobuf", "anydim/_anydim"])

    def test_verdict_of_auditwheel(self):
        shown = run(sys.executable, "-m", "auditwheel", "show", self.wheel)
        self.assertIn('platform tag: "manylinux_2_36_x86_64"', " ".join(shown.split()))

    def test_installed_by_pip(self):
        run(sys.executable, "-m", "venv", self.place / "venv")
        python = self.place / "venv/bin/python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
            "--no-deps", self.wheel)
        packages = pathlib.Path(
            run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        ours = pathlib.Path(
            run(sys.executable, "-c", "import numpy; print(numpy.__file__)").strip()).parents[1]
        for name in ("numpy", "numpy.libs"):
            (packages / name).symlink_to(ours / name)
        (self.place / "m.anydim").write_text(
            "fn @main(%x: Tensor[(n, m), f32]) {\n  %y = transpose(%x) {perm = (1, 0)}\n  return %y\n}\n"
        )
        version, loaded = run(python, "-I", "-c", PROGRAM, cwd=self.place).splitlines()
        self.assertEqual(version.split()[0], run(os.environ["ANYDIM"], "--version").split()[-1])
        self.assertTrue(version.split()[1].startswith(str(packages)), version)
        foreign = [
            path for path in loaded.split()
            if any(name in pathlib.Path(path).name
                   for name in ("LLVM", "libfmt", "xxhash", "sqlite", "mpi", "zstd"))]
        self.assertEqual(foreign, [])
        self.assertEqual(
            [path for path in loaded.split() if "protobuf" in path and str(packages) not in path],
            [])
        # The tests of the package, over what pip installed.
        environment = {**os.environ, "PYTHONPATH": str(packages)}
        run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_run.py",
            "test_session.py", cwd=ROOT / "tests/python", env=environment)


unittest.main()
