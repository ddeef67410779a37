#!/usr/bin/env python3
"""Checks the tree's structure: layering of includes, file sizes, tests for every op and pass,
explicit file lists, columns, leftover notes, machine paths, links of pages, READMEs and the files
that they name. Prints one line a finding (file:line: what is wrong) and exits 1 if there is any.

usage: check_tree.py [FOLDER]   (default: the repository that holds this script)
"""
import pathlib
import re
import sys

# What each folder may include besides itself, the standard library, system headers and fmt: folders
# of ours, then libraries by the start of their headers' names. Folders that are absent here (tests)
# may include anything.
LAYERS = {
    "ir": ([], []),
    "frontends": (["ir"], ["google/protobuf/", "onnx_schema/"]),
    "passes": (["ir"], []),
    "codegen_cpu": (["ir"], ["llvm/", "llvm-c/"]),
    "codegen_cuda": (["ir"], []),
    "runtime": (["ir"], ["xxhash.h"]),
    "tuner": (["ir", "runtime"], ["sqlite3.h", "nlohmann/", "mpi.h"]),
    "api": (["ir", "frontends", "passes", "codegen_cpu", "codegen_cuda", "runtime", "tuner"], []),
    "capi": (["api", "ir"], []),
    "tools": (["api"], ["CLI/", "nlohmann/"]),
    "python": (["api"], ["nanobind/", "numpy/"]),
}
FOLDERS = {*LAYERS, "tests", "bench"}
LIBRARIES = {library for _, libraries in LAYERS.values()
             for library in libraries} | {"benchmark/", "gtest/", "rapidcheck"}
SYSTEM = ("fmt/", "sys/", "linux/", "asm/", "arpa/", "net/", "netinet/")

MAXIMUM_LINES = 600
# It holds for scripts and comments; .clang-format sees to the rest of C++, and Markdown has no
# limit.
MAXIMUM_COLUMNS = 100
SCRIPTS = {".py", ".sh", ".cmake"}
CPP = {".h", ".cpp", ".cu", ".cuh"}
TEXT = {".h", ".hpp", ".cpp", ".c", ".def", ".py", ".sh", ".cmake", ".md", ".txt", ".json", ".test"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home)/")
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
# What may reach further than a line, as nothing can be put between its parts.
LITERAL = re.compile(r'"[^"]*"|\'[^\']*\'')
URL = re.compile(r"https?://\S+")
# The name of a file in backticks; capitals stand for any name.
NAMED_FILE = re.compile(
    r"`((?:\.\./)*[a-z_][\w./*-]*\.(?:h|hpp|cpp|c|cuh|def|py|pyi|sh|cmake|md|test|txt|toml))`")
ROW = re.compile(r'^\s*ANYDIM_\w+\(\s*(\w+)\s*(?:,\s*"([\w.]+)")?', re.MULTILINE)


def tree_files(root):
    """Every file of the tree, sorted; what git ignores by its name (see .gitignore) is no part of
    it."""
    for top in sorted(root.iterdir()):
        if top.name in {".git", ".venv", ".cache"} or top.name.startswith("build"):
            continue
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def include_fault(folder, quote, header):
    """Why a file of the folder may not include the header, or None."""
    ours, libraries = LAYERS[folder]
    if header.startswith(tuple(libraries)):
        return None
    if header.startswith(tuple(LIBRARIES)):
        return f"{folder} may not use the library of <{header}>"
    top = header.split("/")[0]
    if quote == '"':
        if "/" not in header or top not in FOLDERS:
            return f'"{header}" does not start at the repository root'
        return None if top == folder or top in ours else f"{folder} may not include {top} (\"{header}\")"
    if "/" in header and not header.startswith(SYSTEM):
        return f"<{header}> belongs to a library that scripts/check_tree.py does not know"
    return None


def check_layering(root, path, text):
    folder = path.relative_to(root).parts[0]
    if folder not in LAYERS or path.suffix not in {".h", ".cpp", ".c", ".def"}:
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        fault = match and include_fault(folder, *match.groups())
        if fault:
            yield number, fault


def check_text(path, text, allowed_large):
    lines = text.splitlines()
    if len(lines) > MAXIMUM_LINES and path not in allowed_large:
        yield len(
            lines
        ), f"{len(lines)} lines, over {MAXIMUM_LINES}: split it, or list it with a reason in scripts/large_files.txt"
    for number, line in enumerate(lines, 1):
        if NOTE.search(line):
            yield number, "a note of unfinished work"
        if MACHINE_PATH.search(line):
            yield number, "a path of one machine"


def check_columns(path, text):
    """Lines of scripts and comments that are too long; in code a literal counts as if it were
    empty."""
    script = path.suffix in SCRIPTS or path.name == "CMakeLists.txt"
    if not script and path.suffix not in CPP:
        return
    comment = "#" if script else "//"
    for number, line in enumerate(text.splitlines(), 1):
        if not script and not line.lstrip().startswith(comment):
            continue
        rest = URL.sub("", line)
        if not line.lstrip().startswith(comment):
            rest = LITERAL.sub('""', rest)
        if len(rest) > MAXIMUM_COLUMNS:
            yield number, f"{len(line)} columns, over {MAXIMUM_COLUMNS}"


def check_named_files(root, path, text):
    """Files that a README names must exist: below its folder, where the name has no folder; else
    from there or from the repository root. `*` stands for any text."""
    if path.name != "README.md":
        return
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAMED_FILE.findall(line):
            folder, below = path.parent, name
            while below.startswith("../"):
                folder, below = folder.parent, below[3:]
            found = [folder.glob(below)]
            if below == name:
                found.append(root.glob(name) if "/" in name else folder.rglob(name))
            if not any(any(matches) for matches in found):
                yield number, f"`{name}`, which does not exist"


def check_links(root, path, text):
    """Links of a page to files: the target must exist, and a page of the site (docs/) can only link
    to another one."""
    if path.suffix != ".md":
        return
    site = root / "docs"
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            file = (path.parent / target).resolve()
            if not file.exists():
                yield number, f"a link to {target}, which does not exist"
            elif site in path.parents and site not in file.parents:
                yield number, f"a link to {target}, which is not part of the site: name the file without a link"


def large_files(root):
    """Paths listed in scripts/large_files.txt, one `path: reason` a line; a line without a reason
    is a fault."""
    listed, faults = set(), []
    for number, line in enumerate((root / "scripts/large_files.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        path, _, reason = line.partition(":")
        listed.add(root / path.strip())
        if not reason.strip():
            faults.append((root / "scripts/large_files.txt", number,
                           f"{path.strip()} is listed without a reason"))
        if not (root / path.strip()).exists():
            faults.append(
                (root / "scripts/large_files.txt", number, f"{path.strip()} does not exist"))
    return listed, faults


def check_tables(root):
    """A row of a table without a test file. A row's name is its text form where its second column
    is one, else its first column. Elementwise ops stand in a table of cases instead, whose own test
    demands a row for each."""
    for table, tests in (("ir/ops.def", "tests/ir/ops"), ("passes/passes.def", "tests/passes")):
        if not (root / table).exists() or not (root / tests).is_dir():
            continue
        text = (root / table).read_text()
        names = [(m.start(), m.group(2) or m.group(1)) for m in ROW.finditer(text)]
        if not names:
            yield root / table, 1, "no rows found: check_tree.py expects ANYDIM_...(name, ...)"
        for offset, name in names:
            row = text[offset:].partition(")")[0]
            if re.search(r"\belementwise\b", row):
                continue
            if not any(p.name.startswith(name + ".") for p in (root / tests).iterdir()):
                yield root / table, text.count("\n", 0,
                                               offset) + 1, f"{name} has no test {tests}/{name}.*"


def check_lists(root, files):
    """A source file that no CMakeLists.txt on its way up names would never be built."""
    for path in files:
        if path.suffix not in {".cpp", ".c"}:
            continue
        for folder in path.parents:
            build = folder / "CMakeLists.txt"
            if build.exists() and re.search(
                    rf"(?<![\w/]){re.escape(str(path.relative_to(folder)))}(?!\w)",
                    build.read_text()):
                break
            if folder == root:
                yield path, 1, "no CMakeLists.txt names this file"
                break


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) >
                        1 else pathlib.Path(__file__).parent.parent).resolve()
    files = list(tree_files(root))
    allowed_large, faults = large_files(root)
    for path in files:
        if path.suffix not in TEXT and path.name != "README":
            continue
        text = path.read_text(encoding="utf8", errors="replace")
        faults += [(path, *fault) for fault in check_text(path, text, allowed_large)]
        faults += [(path, *fault) for fault in check_layering(root, path, text)]
        faults += [(path, *fault) for fault in check_links(root, path, text)]
        faults += [(path, *fault) for fault in check_columns(path, text)]
        faults += [(path, *fault) for fault in check_named_files(root, path, text)]
    faults += check_tables(root)
    faults += check_lists(root, files)
    folders = {root / path.relative_to(root).parts[0] for path in files if path.parent != root}
    folders |= {
        path.parent
        for path in files
        if path.relative_to(root).parts[0] in LAYERS and path.suffix in {".h", ".cpp", ".cuh", ".py"}}
    for folder in sorted(folders):
        if not folder.name.startswith(".") and not (folder / "README.md").exists():
            faults.append((folder / "README.md", 1, "every folder has a README"))
    for path, number, fault in faults:
        print(f"{path.relative_to(root)}:{number}: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
