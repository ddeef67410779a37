"""The Debian packages that cpack makes: what they depend on, what lintian says of them, and that
what is in them works together. BUILD names the build folder, CPACK and CC the tools."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "tests/models/tiny_bert.onnx"
BUILD, CPACK, CC = (os.environ[name] for name in ("BUILD", "CPACK", "CC"))


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="anydim_package_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run(CPACK, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "-B", cls.folder / "packages",
            cwd=BUILD)
        cls.packages = {
            run("dpkg-deb", "-f", file, "Package").strip(): file
            for file in (cls.folder / "packages").glob("*.deb")}

    def test_there_are_a_library_its_development_files_and_the_command(self):
        self.assertEqual(set(self.packages), {"libanydim0", "libanydim-dev", "anydim"})

    def test_dependencies_are_those_of_the_binaries(self):
        depends = {
            name: run("dpkg-deb", "-f", file, "Depends").strip()
            for name, file in self.packages.items()}
        library = {entry.split()[0] for entry in depends["libanydim0"].split(", ")}
        self.assertLessEqual({"libc6", "libstdc++6", "libprotobuf-lite32"}, library)
        self.assertFalse([name for name in library if re.search("llvm|mpi|anydim|-dev$", name)],
                         library)
        version = run("dpkg-deb", "-f", self.packages["libanydim0"], "Version").strip()
        self.assertEqual(depends["libanydim-dev"], f"libanydim0 (= {version})")
        self.assertLessEqual({"libc6", "libstdc++6"},
                             {entry.split()[0] for entry in depends["anydim"].split(", ")})

    def test_lintian_finds_no_error(self):
        # Run as the user who runs the tests, which may be root.
        done = subprocess.run(
            ["lintian", "--allow-root", "--fail-on", "error", *map(str, self.packages.values())],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, r"(?m)^E: ")

    def test_what_is_in_them_works_together(self):
        root = self.folder / "root"
        for file in self.packages.values():
            run("dpkg-deb", "-x", file, root)
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(root / "usr/lib"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PKG_CONFIG_PATH": str(root / "usr/lib/pkgconfig")}
        shutil.copy(ROOT / "docs/examples/c_interface/embed.c", self.folder)
        flags = run("pkg-config", "--cflags", "--libs", "anydim", env=environment).split()
        run(CC, "embed.c", "-o", "embed", *flags, cwd=self.folder)
        self.assertRegex(run(self.folder / "embed", MODEL, env=environment),
                         r"^hidden \(2, 5, 32\) =")
        self.assertIn("anydim", run(root / "usr/bin/anydim", "--version", env=environment))
        for name in self.packages:
            for file in ("copyright", "changelog.gz"):
                self.assertTrue((root / "usr/share/doc" / name / file).is_file(), f"{name} {file}")


if __name__ == "__main__":
    unittest.main()
