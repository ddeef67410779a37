"""scripts/check_tree.py finds what it promises to find, and nothing in a tree that is in order."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/check_tree.py"
ORDERLY = {
    "CMakeLists.txt": "add_subdirectory(ir)\n",
    "ir/README.md": "# ir\n",
    "ir/CMakeLists.txt": "anydim_library(anydim_ir SOURCES dim.cpp)\n",
    "ir/dim.h": "#include <vector>\n#include <fmt/format.h>\n",
    "ir/dim.cpp": '#include "ir/dim.h"\n',
    "scripts/README.md": "# scripts\n",
    "scripts/large_files.txt": "# none\n",
}


def check(changes):
    """Lines that check_tree.py prints for the orderly tree with changes (name: text, or None to
    leave the file out)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**ORDERLY, **changes}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        assert done.returncode == (1 if done.stderr else 0), done.stderr
        return done.stderr.splitlines()


class CheckTree(unittest.TestCase):
    def test_orderly_tree(self):
        self.assertEqual(check({}), [])

    def test_include_against_the_layers(self):
        self.assertEqual(check({"ir/dim.h": '\n#include "passes/pass.h"\n'}),
                         ['ir/dim.h:2: ir may not include passes ("passes/pass.h")'])

    def test_include_of_a_library_that_belongs_elsewhere(self):
        self.assertEqual(check({"ir/dim.h": "#include <llvm/IR/Module.h>\n"}),
                         ["ir/dim.h:1: ir may not use the library of <llvm/IR/Module.h>"])

    def test_include_of_an_unknown_library(self):
        self.assertEqual(check({"ir/dim.h": "#include <boost/any.hpp>\n"}), [
            "ir/dim.h:1: <boost/any.hpp> belongs to a library that scripts/check_tree.py does not know"
        ])

    def test_relative_include(self):
        self.assertEqual(check({"ir/dim.cpp": '#include "dim.h"\n'}),
                         ['ir/dim.cpp:1: "dim.h" does not start at the repository root'])

    def test_link_to_nothing(self):
        self.assertEqual(
            check({"ir/README.md": "See [here](https://x.org/a), [dims](dim.h#L2), `a[0](b)`.\n\n[x](y.md)\n"}),
            ["ir/README.md:3: a link to y.md, which does not exist"])

    def test_link_out_of_the_site(self):
        self.assertEqual(
            check({"docs/README.md": "# docs\n", "docs/a.md": "[b](README.md), [dims](../ir/dim.h)\n"}), [
                "docs/a.md:1: a link to ../ir/dim.h, which is not part of the site: name the file without a link"
            ])

    def test_large_file(self):
        large = {"ir/dim.h": "\n" * 601}
        self.assertEqual(check(large), [
            "ir/dim.h:601: 601 lines, over 600: split it, or list it with a reason in scripts/large_files.txt"
        ])
        self.assertEqual(
            check({**large, "scripts/large_files.txt": "ir/dim.h: one table, read as a whole\n"}),
            [])
        self.assertEqual(check({**large, "scripts/large_files.txt": "ir/dim.h:\n"}),
                         ["scripts/large_files.txt:1: ir/dim.h is listed without a reason"])

    def test_row_without_a_test(self):
        table = {
            "ir/ops.def":
                '// ops\nANYDIM_OP(add, "add", 2)\nANYDIM_OP(dyn_reshape, "dyn.reshape", 2)  // not elementwise\n'
                'ANYDIM_OP(exp, "exp", unary, elementwise)\n'}
        self.assertEqual(check(table), [])  # until the folder of tests exists
        table["tests/README.md"] = "# tests\n"
        table["tests/ir/ops/add.test"] = "add\n"
        self.assertEqual(check(table),
                         ["ir/ops.def:3: dyn.reshape has no test tests/ir/ops/dyn.reshape.*"])
        self.assertEqual(check({**table, "tests/ir/ops/dyn.reshape.test": "reshape\n"}), [])

    def test_row_named_by_its_first_column(self):
        rows = {
            "passes/passes.def": 'ANYDIM_PASS(dead_code, "drops what folding left behind")\n',
            "passes/README.md": "# passes\n", "tests/README.md": "# tests\n",
            "tests/passes/fuse.test": "fuse\n"}
        self.assertEqual(check(rows),
                         ["passes/passes.def:1: dead_code has no test tests/passes/dead_code.*"])
        self.assertEqual(check({**rows, "tests/passes/dead_code.test": "dead_code\n"}), [])

    def test_source_that_is_never_built(self):
        self.assertEqual(check({"ir/type.cpp": ""}),
                         ["ir/type.cpp:1: no CMakeLists.txt names this file"])

    def test_notes_and_machine_paths(self):
        self.assertEqual(check({"ir/dim.h": "// TO"
                                            "DO: later\n"}),
                         ["ir/dim.h:1: a note of unfinished work"])
        self.assertEqual(check({"ir/README.md": "see /ro"
                                                "ot/notes\n"}),
                         ["ir/README.md:1: a path of one machine"])

    def test_folder_without_readme(self):
        self.assertEqual(check({"ir/README.md": None}),
                         ["ir/README.md:1: every folder has a README"])
        for file in ("codegen_cuda/device/prelude.cuh", "python/anydim/errors.py"):
            top, folder, _ = file.split("/")
            self.assertEqual(check({file: "", f"{top}/README.md": f"# {top}\n"}),
                             [f"{top}/{folder}/README.md:1: every folder has a README"])

    def test_readme_that_names_what_is_not_there(self):
        text = "`dim.h`, `ir/dim.cpp`, `di*.h`, `../ir/dim.h`, `../scripts/large_files.txt`, `NAME.h`"
        self.assertEqual(check({"ir/README.md": text}), [])
        for name in ("dims.h", "ir/dims.h", "ty*.h", "../dim.h"):
            self.assertEqual(check({"ir/README.md": f"\n`{name}`\n"}),
                             [f"ir/README.md:2: `{name}`, which does not exist"])

    def test_long_lines(self):
        words = "a " * 51
        for file, line in (("scripts/a.py", f"x = [{words}]"), ("scripts/a.sh", f"# '{words}'"),
                           ("ir/CMakeLists.txt", f"set(dim.cpp {words})"),
                           ("ir/a.h", f"  // '{words}'")):
            self.assertEqual(check({file: f"{line}\n"}),
                             [f"{file}:1: {len(line)} columns, over 100"])
        self.assertEqual(
            check({
                "scripts/a.py": f"x = '{words}'\n# https://x.org/{'a' * 100}\n",
                "ir/a.h": f"f({words});\n// https://x.org/{'a' * 100}\n",
                "scripts/README.md": words}), [])


unittest.main()
