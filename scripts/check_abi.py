#!/usr/bin/env python3
"""Holds a build's libanydim.so, before it is stripped, against what was promised to programs: it is
the same as the dump of its version (capi/abi/anydim-VERSION.abi, by abidiff), and everything that
older versions promised is there: structs have grown at their ends or not at all. Needs Debian's
abigail-tools.

usage: check_abi.py LIBRARY [--update] [--dumps FOLDER] [--header FILE]   (--update writes the dump
of a version that has none; a dump is never written anew)
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Callers put these into arrays, so that not even their size may change.
FIXED = {"anydim_input", "anydim_output", "anydim_shape", "anydim_setting"}


def write_dump(library, file):
    # Locations would change with every comment of the header, and folders with every machine.
    subprocess.run([
        "abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
        "--type-id-style", "hash", "--out-file", file, library], check=True)


class Dump:
    """Structs by name, each its size and members (name, offset in bits, type as text); the symbols
    that can be seen."""

    def __init__(self, file):
        root = xml.etree.ElementTree.parse(file).getroot()
        self.symbols = {(root.get("soname"), symbol.get("name"), symbol.get("version"))
                        for symbol in root.iter("elf-symbol")}
        self.types = {element.get("id"): element for element in root.iter() if element.get("id")}
        self.functions = {
            function.get("name"): self.signature(function)
            for function in root.iter("function-decl")
            if function.get("elf-symbol-id")}
        self.structs = {}
        for struct in root.iter("class-decl"):
            if struct.get("is-declaration-only") == "yes":
                continue
            members = [
                (member.find("var-decl").get("name"), int(member.get("layout-offset-in-bits")),
                 self.text(member.find("var-decl").get("type-id")))
                for member in struct.iter("data-member")]
            self.structs[struct.get("name")] = (int(struct.get("size-in-bits")), members)

    def signature(self, function):
        parameters = ", ".join(
            self.text(parameter.get("type-id")) for parameter in function.iter("parameter"))
        return f"{self.text(function.find('return').get('type-id'))}({parameters})"

    def text(self, type_id):
        element = self.types[type_id]
        if element.tag == "pointer-type-def":
            return self.text(element.get("type-id")) + "*"
        if element.tag == "qualified-type-def":
            return f"const {self.text(element.get('type-id'))}"
        if element.tag == "typedef-decl":
            # A struct's own name is the typedef's; other typedefs are as wide as what they stand
            # for.
            under = self.text(element.get("type-id"))
            return under if under == f"struct {element.get('name')}" else f"{element.get('name')}={under}"
        if element.tag == "class-decl":
            return f"struct {element.get('name')}"
        if element.tag == "function-type":
            return self.signature(element)
        return f"{element.get('name')}:{element.get('size-in-bits', '0')}"


def broken_promises(old, new):
    """What a program built with the old dump's header would trip over."""
    for symbol in sorted(old.symbols - new.symbols):
        yield f"the symbol {symbol[1]}@{symbol[2]} of {symbol[0]} is gone"
    for name, signature in old.functions.items():
        if new.functions.get(name) != signature:
            yield f"{name} was {signature}, and is {new.functions.get(name)}"
    for name, (size, members) in old.structs.items():
        if name not in new.structs:
            yield f"{name} is gone"
            continue
        new_size, new_members = new.structs[name]
        if name in FIXED and (new_size, new_members) != (size, members):
            yield f"{name} never changes, and has"
        for position, member in enumerate(members):
            there = new_members[position] if position < len(new_members) else None
            if there != member:
                yield f"member {position} of {name} was {member}, and is {there}: members are added at the end alone"


def findings(library, dumps, version):
    with tempfile.TemporaryDirectory(prefix="anydim_abi_") as folder:
        file = pathlib.Path(folder) / "now.abi"
        write_dump(library, file)
        now = Dump(file)
    for older in range(1, version + 1):
        dump = dumps / f"anydim-{older}.abi"
        if not dump.exists():
            yield f"version {older} has no dump {dump.name}: write it with --update"
            continue
        yield from (f"version {older}: {broken}" for broken in broken_promises(Dump(dump), now))
    dump = dumps / f"anydim-{version}.abi"
    if dump.exists():
        # What abidiff takes to be harmless, such as a function's new name, is none to a program
        # that is compiled again.
        compared = subprocess.run(["abidiff", "--harmless", dump, library], capture_output=True,
                                  text=True, check=False)
        if compared.returncode != 0:
            yield (
                f"version {version} is not what its dump says. A function that was added needs a higher ANYDIM_API_VERSION and a dump of its own (--update).\n"
                + compared.stdout + compared.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--dumps", type=pathlib.Path, default=ROOT / "capi/abi")
    parser.add_argument("--header", type=pathlib.Path, default=ROOT / "capi/anydim.h")
    arguments = parser.parse_args()
    version = int(re.search(r"#define ANYDIM_API_VERSION (\d+)u", arguments.header.read_text())[1])
    dump = arguments.dumps / f"anydim-{version}.abi"
    if arguments.update and not dump.exists():
        dump.parent.mkdir(exist_ok=True)
        write_dump(arguments.library, dump)
    faults = list(findings(arguments.library, arguments.dumps, version))
    for fault in faults:
        print(f"abi: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
