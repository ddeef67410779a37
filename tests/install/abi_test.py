"""The promise of the C interface is held: the library is what the dump of its version says, and a
header that breaks the promise is found out. LIBRARY names libanydim.so of the build, CC the
compiler."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DUMPS = ROOT / "capi/abi"
APPENDED = (r"(anydim_status\* \(\*context_set_cache\)[^;]*;[^\n]*\n)", r"\1  int (*more)(void);\n")
BUMPED = (r"#define ANYDIM_API_VERSION 4u", "#define ANYDIM_API_VERSION 5u")
# Changes of the header, each with words of the finding.
BROKEN = {
    "two functions exchanged": ((
        r"(anydim_status\* \(\*results_count\)[^;]*;)\n  (anydim_status\* \(\*results_tensor\)[^;]*;)",
        r"\2\n  \1"), "members are added at the end alone"),
    "a function in the middle": (
        (r"(  anydim_kind \(\*status_kind\))",
         r"  int (*more)(void);\n\1"), "members are added at the end alone"),
    "another result": (
        (r"size_t \(\*handles_alive\)", "uint32_t (*handles_alive)"), "member 3 of anydim_api"),
    "another argument": ((r"(\(\*results_count\)\(const anydim_results\* results, )size_t",
                          r"\1uint32_t"), "results_count"),
    "another name": ((r"\(\*trace_write\)", "(*trace_keep)"), "trace_keep"),
    "dtypes that are signed": ((r"typedef uint32_t anydim_dtype", "typedef int32_t anydim_dtype"),
                               "anydim_input never changes"),
    "an argument's struct that grew": (
        (r"(\n\} anydim_input;)", r"\n  uint64_t more;\1"), "anydim_input never changes"),
    "an answer's member in the middle": (
        (r"(\n  const char\* const\* dims;)",
         r"\n  uint64_t more;\1"), "member 2 of anydim_tensor_info"),
    "a function without a new version": (APPENDED, "needs a higher ANYDIM_API_VERSION"),
    "a member of an answer without a new version": (
        (r"(\n\} anydim_statistics;)", r"\n  double more;\1"), "needs a higher ANYDIM_API_VERSION"),
}


def check(library, *more):
    return subprocess.run([sys.executable, ROOT / "scripts/check_abi.py", library, *more],
                          capture_output=True, text=True, check=False)


class Abi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_abi_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(DUMPS, self.folder / "abi")

    def library(self, *changes):
        """A library of nothing but the entry, by a header that was changed."""
        header = (ROOT / "capi/anydim.h").read_text()
        for pattern, replacement in changes:
            header, count = re.subn(pattern, replacement, header)
            self.assertEqual(count, 1, pattern)
        capi = self.folder / "capi"
        capi.mkdir(exist_ok=True)
        (capi / "anydim.h").write_text(header)
        shutil.copy(ROOT / "capi/entry.c", capi)
        (self.folder / "table.c").write_text("const void* anydim_table(void) { return 0; }\n")
        library = self.folder / "libanydim.so"
        subprocess.run([
            os.environ["CC"], "-std=c11", "-g", "-fstandalone-debug", "-w", "-fPIC", "-shared",
            "-I.", "capi/entry.c", "table.c", "-o", library,
            f"-Wl,--version-script={ROOT / 'capi/anydim.map'}", "-Wl,-soname,libanydim.so.0"],
                       cwd=self.folder, check=True)
        return library

    def check(self, library, *more):
        return check(library, "--dumps", self.folder / "abi", "--header",
                     self.folder / "capi/anydim.h", *more)

    def test_the_library_is_what_its_dump_says(self):
        done = check(os.environ["LIBRARY"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_dumps_name_no_machine(self):
        for dump in DUMPS.glob("*.abi"):
            self.assertEqual(set(re.findall(r"path='([^']*)'", dump.read_text())), {"capi/entry.c"})

    def test_an_unchanged_header_passes(self):
        done = self.check(self.library())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_breaks_the_promise_is_found(self):
        for what, (change, said) in BROKEN.items():
            with self.subTest(what):
                done = self.check(self.library(change))
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)

    def test_growth_with_a_new_version_passes_once_it_has_its_dump(self):
        library = self.library(APPENDED, BUMPED)
        self.assertIn("version 5 has no dump", self.check(library).stderr)
        done = self.check(library, "--update")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "abi/anydim-1.abi").read_text(),
                         (DUMPS / "anydim-1.abi").read_text())

    def test_growth_hides_no_other_change(self):
        library = self.library(APPENDED, BUMPED, BROKEN["another result"][0])
        done = self.check(library, "--update")
        self.assertEqual(done.returncode, 1)
        self.assertIn("version 1: member 3 of anydim_api", done.stderr)


if __name__ == "__main__":
    unittest.main()
