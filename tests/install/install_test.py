"""What cmake --install gives, used from a folder outside the tree: consumers in C and C++, by CMake
and by pkg-config, beside the installed command. BUILD names the build folder, CMAKE, CC and CXX the
tools. Everything is installed once, then moved: nothing may depend on where it was put or built."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXAMPLE = ROOT / "docs/examples/c_interface"
MODEL = ROOT / "tests/models/tiny_bert.onnx"
BUILD, CMAKE, CC, CXX = (os.environ[name] for name in ("BUILD", "CMAKE", "CC", "CXX"))
MOST_BYTES = 40 << 20
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# As the example has them.
TOKENS, MASK = [2, 7, 11, 5, 3, 2, 9, 3, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]


def run(*command, check=True, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def write_npy(path, values):
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 5), }"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack("<10q", *values))


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="anydim_install_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run(CMAKE, "--install", BUILD, "--prefix", cls.folder / "first", "--strip")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.library = cls.prefix / "lib/libanydim.so"
        cls.environment = {
            **os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache"),
            "PKG_CONFIG_PATH": str(cls.prefix / "lib/pkgconfig")}

    def example(self, program, *arguments, check=True):
        """What a consumer prints, found beside nothing but the installed library."""
        environment = {**self.environment, "LD_LIBRARY_PATH": str(self.prefix / "lib")}
        return run(program, *(arguments or [MODEL]), check=check, cwd=self.folder, env=environment)

    def pkg_config(self, *wanted):
        return run("pkg-config", *wanted, "anydim", env=self.environment).stdout.split()

    def compiled(self, compiler, standard, source):
        program = self.folder / source.name.replace(".", "_")
        shutil.copy(source, self.folder)
        run(compiler, standard, *STRICT, source.name, "-o", program,
            *self.pkg_config("--cflags", "--libs"), cwd=self.folder)
        return program

    def expected(self):
        """The line that the example prints, by the installed command."""
        for name, values in (("ids", TOKENS), ("mask", MASK)):
            write_npy(self.folder / f"{name}.npy", values)
        out = self.folder / "out"
        run(self.prefix / "bin/anydim", "run", MODEL, "--input",
            f"input_ids={self.folder / 'ids.npy'}", "--input",
            f"attention_mask={self.folder / 'mask.npy'}", "--threads", "2", "--output", out,
            env=self.environment)
        (result,) = out.glob("*.npy")
        return struct.unpack("<320f", result.read_bytes()[-1280:])[:4]

    def assert_right(self, printed):
        match = re.fullmatch(r"hidden \(2, 5, 32\) =((?: \S+){4})\n", printed)
        self.assertTrue(match, printed)
        for got, wanted in zip(map(float, match[1].split()), self.expected()):
            self.assertAlmostEqual(got, wanted, delta=1e-4)

    def test_one_function_is_seen_from_outside(self):
        defined = run("nm", "-D", "--defined-only", self.library).stdout
        self.assertEqual(re.findall(r"\S+$", defined, re.MULTILINE), ["anydim_get_api@@ANYDIM_0"])
        wanted = run("nm", "-D", "--undefined-only", self.library).stdout
        self.assertIn("google8protobuf", wanted)  # Debian's own, by its SONAME
        self.assertNotRegex(wanted, r"4llvm|LLVM|6anydim")

    def test_the_library_names_itself_and_no_folder(self):
        dynamic = run("readelf", "-dW", self.library).stdout
        self.assertIn("soname: [libanydim.so.0]", dynamic)
        self.assertIn("NODELETE", dynamic)
        self.assertNotRegex(dynamic, r"R(UN)?PATH|libmpi|libLLVM")
        self.assertTrue(os.readlink(self.library).startswith("libanydim.so.0"))
        for file in filter(pathlib.Path.is_file, self.prefix.rglob("*")):
            content = file.read_bytes()
            for place in (ROOT, BUILD, self.folder):
                self.assertNotIn(f"{place}/".encode(), content, file)

    def test_the_library_is_stripped_and_not_large(self):
        self.assertLess(self.library.stat().st_size, MOST_BYTES)
        self.assertNotIn(".debug_info", run("readelf", "-SW", self.library).stdout)

    def test_cmake_finds_the_package(self):
        consumer, build = self.folder / "consumer", self.folder / "consumer_build"
        shutil.copytree(EXAMPLE, consumer)
        run(CMAKE, "-S", consumer, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}")
        run(CMAKE, "--build", build)
        for program in ("embed_c", "embed_cpp"):
            self.assert_right(self.example(build / program).stdout)
        newer = self.folder / "newer"
        newer.mkdir()
        (newer / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(newer C)\nfind_package(Anydim 99 REQUIRED)\n"
        )
        refused = run(CMAKE, "-S", newer, "-B", newer / "build",
                      f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_C_COMPILER={CC}", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("99", refused.stderr)

    def test_pkg_config_finds_the_package(self):
        self.assertEqual(self.pkg_config("--modversion"),
                         [run(self.prefix / "bin/anydim", "--version").stdout.split()[-1]])
        for compiler, standard, source in ((CC, "-std=c99", "embed.c"), (CXX, "-std=c++17",
                                                                         "embed.cpp")):
            self.assert_right(
                self.example(self.compiled(compiler, standard, EXAMPLE / source)).stdout)

    def test_errors_of_consumers_have_the_commands_exit_codes(self):
        program = self.compiled(CC, "-std=c11", EXAMPLE / "embed.c")
        missing = self.example(program, "no/such/model.onnx", check=False)
        command = run(self.prefix / "bin/anydim", "run", "no/such/model.onnx", check=False,
                      env=self.environment)
        self.assertEqual((missing.returncode, command.returncode), (4, 4))
        self.assertEqual(missing.stderr, "embed: no/such/model.onnx: there is no such file\n")

    def test_all_of_the_wrapper_works(self):
        program = self.compiled(CXX, "-std=c++17", HERE / "wrapper.cpp")
        done = self.example(program, MODEL, self.folder, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_program_may_leave_without_releasing(self):
        program = self.compiled(CC, "-std=c11", HERE / "leave.c")
        pending = [int(self.example(program).stdout.split()[0]) for _ in range(10)]
        self.assertTrue(any(pending), "no kernel was left to compile, so that this shows nothing")

    def test_the_examples_of_the_documentation_are_these(self):
        page = (ROOT / "docs/c-interface.md").read_text()
        blocks = re.findall(r"^```(?:c|cpp|cmake)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertEqual(blocks, [
            (EXAMPLE / name).read_text() for name in ("embed.c", "embed.cpp", "CMakeLists.txt")])


if __name__ == "__main__":
    unittest.main()
