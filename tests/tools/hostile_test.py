"""What others wrote to do harm: streams that cannot be written, names that steer terminals,
databases and JSON made to break their readers, graphs of great size. ANYDIM names the command; only
Python's own library is needed."""
import json
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest

from bad_input_test import npy

SANITIZED = bool(os.environ.get("ANYDIM_SANITIZE"))
# Control characters, and what is invisible or turns the direction of text.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
MODEL = "fn @main(%x: Tensor[(n), f32]) {\n  %y = relu(%x)\n  return %y\n}\n"


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_hostile_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                LC_ALL="C.UTF-8")
        (self.folder / "m.anydim").write_text(MODEL)
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                                            header + struct.pack("<f", 1))

    def anydim(self, *words, **more):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.run([os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env=self.environment, timeout=120, check=False, **streams)

    def refused(self, code, message, *words, **more):
        """Exit code, and what standard error must hold; on one line of bounded length."""
        done = self.anydim(*words, **more)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        self.assertIn(message, said)
        self.assertLess(len(said), 5000)
        self.assertIsNone(HIDDEN.search(said), said)
        return said


class Streams(Hostile):
    COMMANDS = (["run", "m.anydim", "--input",
                 "x=x.npy"], ["run", "m.anydim", "--input", "x=x.npy",
                              "--json"], ["opt", "m.anydim"], ["opt", "m.anydim", "--json"],
                ["explain", "m.anydim", "--shape",
                 "x=3"], ["doctor"], ["--help"], ["run", "--help"], ["--version"])

    def test_standard_error_that_cannot_be_written(self):
        for words in (["run", "nothing.onnx"], ["opt", "nothing.onnx"],
                      ["run", "nothing.onnx", "--json"], ["tune", "--show", "--db", "m.anydim"]):
            with open("/dev/full", "w") as full:
                self.assertEqual(self.anydim(*words, stderr=full).returncode, 4, words)
            closed = subprocess.run(
                ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', os.environ["ANYDIM"], *words],
                cwd=self.folder, env=self.environment, check=False, stdout=subprocess.PIPE)
            self.assertEqual(closed.returncode, 4, words)
        self.assertEqual((self.folder / "m.anydim").read_text(), MODEL)

    def test_warnings_that_cannot_be_written(self):
        (self.folder / "kernels").mkdir()
        (self.folder / "kernels").chmod(0o777)
        words = ["run", "m.anydim", "--input", "x=x.npy", "--cache-dir", "kernels"]
        self.assertIn(b"warning: cache folder kernels can be written by other users",
                      self.anydim(*words).stderr)
        with open("/dev/full", "w") as full:
            done = self.anydim(*words, stderr=full)
        self.assertEqual((done.returncode, done.stdout), (0, b"y: f32 (1) = 1\n"))
        closed = subprocess.run(
            ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', os.environ["ANYDIM"], *words], cwd=self.folder,
            env=self.environment, check=False, stdout=subprocess.PIPE)
        self.assertEqual((closed.returncode, closed.stdout), (0, b"y: f32 (1) = 1\n"))

    def test_standard_output_that_cannot_be_written(self):
        for words in self.COMMANDS:
            with open("/dev/full", "w") as full:
                done = self.anydim(*words, stdout=full)
            self.assertEqual((done.returncode, done.stderr.decode()),
                             (7, "anydim: standard output cannot be written\n"), words)
            closed = subprocess.run(
                ["/bin/sh", "-c", 'exec "$0" "$@" >&-', os.environ["ANYDIM"], *words],
                cwd=self.folder, env=self.environment, check=False, stderr=subprocess.PIPE)
            self.assertEqual((closed.returncode, closed.stderr.decode()),
                             (7, "anydim: standard output cannot be written\n"), words)

    def test_a_record_that_cannot_be_written(self):
        self.refused(7, "/dev/full: cannot be written: it is no regular file", "run", "m.anydim",
                     "--input", "x=x.npy", "--record", "/dev/full")

    def test_a_trace_that_cannot_be_written(self):
        words = ("run", "m.anydim", "--input", "x=x.npy", "--trace")
        self.refused(7, "/dev/full: cannot be written: it is no regular file", *words, "/dev/full")
        self.refused(7, "no/trace.json: cannot be written: No such file or directory", *words,
                     "no/trace.json")
        self.refused(2, "--trace needs the virtual machine, not --executor reference", *words,
                     "trace.json", "--executor", "reference")
        self.refused(2, "--trace-events", *words, "trace.json", "--trace-events", "0")
        self.assertEqual([path.name for path in self.folder.glob("trace*")], [])

    def test_a_call_that_fails_is_traced(self):
        (self.folder / "check.anydim").write_text(
            "fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32]) { return add(%x, %y) }\n")
        npy(self.folder / "two.npy", "<f4", (2,), bytes(8))
        self.refused(5, "", "run", "check.anydim", "--input", "x=x.npy", "--input", "y=two.npy",
                     "--trace", "trace.json")
        trace = json.loads((self.folder / "trace.json").read_text())
        self.assertEqual([
            event["args"]["failed"] for event in trace["traceEvents"] if event.get("cat") == "call"
        ], [True])

    def test_a_small_stack(self):
        small = {
            "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_STACK,
                                                     (64 << 10, resource.RLIM_INFINITY))}
        done = self.anydim("run", "m.anydim", "--input", "x=x.npy", **small)
        self.assertEqual((done.returncode, done.stdout), (0, b"y: f32 (1) = 1\n"), done.stderr)
        self.refused(4, "nothing.onnx", "run", "nothing.onnx", **small)
        (self.folder / "deep.anydim").write_text("fn @main(%x: Tensor[(n), f32]) { return " +
                                                 "relu(" * 199 + "%x" + ")" * 199 + " }\n")
        done = self.anydim("opt", "deep.anydim", **small)
        self.assertEqual(done.returncode, 0, done.stderr)


class Names(Hostile):
    # A colour, a C1 control, a direction, a mark of byte order, a zero-width joiner, a line end.
    STEERING = "a\x1b[31m\x9b\u202e\ufeff\u200d\n"
    ESCAPED = "".join(f"\\x{byte:02x}" if HIDDEN.match(c) else c
                      for c in STEERING
                      for byte in c.encode()).replace("\n", "\\n")

    def model(self):
        quoted = '"' +"".join(c if " " <= c < "\x7f" and c not in '"\\' else "".join(
            f"\\x{byte:02x}" for byte in c.encode()) for c in self.STEERING) + '"'
        (self.folder / "names.anydim").write_text(
            f"fn @main(%{quoted}: Tensor[(n), f32]) {{\n  %y = relu(%{quoted}) from {quoted}\n"
            f"  return %y as {quoted}\n}}\n")

    def test_output_is_fit_for_a_terminal(self):
        self.model()
        for words in (["run", "names.anydim", "--input", f"{self.STEERING}=x.npy"
                       ], ["opt", "names.anydim"], ["opt", "names.anydim", "--json"],
                      ["explain", "names.anydim", "--shape", f"{self.STEERING}=3"
                       ], ["run", "names.anydim", "--input", f"{self.STEERING}=x.npy", "--json"]):
            done = self.anydim(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsNone(HIDDEN.search(done.stdout.decode()), done.stdout)

    def test_what_opt_prints_reads_back(self):
        self.model()
        text = self.anydim("opt", "names.anydim", "--passes", "none").stdout
        (self.folder / "again.anydim").write_bytes(text)
        self.assertEqual(self.anydim("opt", "again.anydim", "--passes", "none").stdout, text)
        self.assertIn(b"\\x1b[31m\\xc2\\x9b\\xe2\\x80\\xae", text)

    def test_messages_are_fit_for_a_terminal(self):
        self.model()
        for words in (["run", "names.anydim"
                       ], ["run", "names.anydim", "--input", f"{self.STEERING}b=x.npy"],
                      ["run", self.STEERING], ["run", "m.anydim", "--input", f"x={self.STEERING}"],
                      ["opt", "m.anydim", "--passes",
                       self.STEERING], ["tune", "--show", "--db", self.STEERING]):
            done = self.anydim(*words)
            self.assertIn(done.returncode, (2, 4, 5), words)
            self.assertIsNone(HIDDEN.search(done.stderr.decode()), done.stderr)

    def test_messages_end(self):
        descr = "A" * 60000
        header = repr({"descr": descr, "fortran_order": False, "shape": (1,)}).encode()
        (self.folder / "long.npy").write_bytes(b"\x93NUMPY\x02\x00" +
                                               len(header).to_bytes(4, "little") + header)
        self.refused(4, "element type 'AAAA", "run", "m.anydim", "--input", "x=long.npy")
        self.refused(2, "", "opt", "m.anydim", "--passes", "p" * 100000)


class Databases(Hostile):
    def database(self, *statements):
        """A right database that these statements then change."""
        self.anydim("tune", "--import", "export.json", "--db", "own.db")
        connection = sqlite3.connect(self.folder / "own.db")
        connection.executescript("PRAGMA writable_schema = ON;" + ";".join(statements))
        connection.commit()
        connection.close()

    def setUp(self):
        super().setUp()
        (self.folder / "export.json").write_text(
            json.dumps({
                "format": "anydim tuning database", "schema": 2,
                "regions": [{"identity": "r", "name": "r",
                             "description": ""}], "environments": []}))

    def test_what_is_damaged_is_said_to_be(self):
        run = ["run", "m.anydim", "--input", "x=x.npy", "--db", "own.db"]
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, x AS identity, x AS name, x AS description FROM c"
        for command, *statements in (
            (run, "DROP TABLE entries"), (run, "DROP TABLE environments"),
            (run, "ALTER TABLE entries DROP COLUMN roofline_seconds"),
            (run, "DROP TABLE entries",
             "CREATE VIEW entries AS SELECT no_such_function(1) AS environment"),
            (run, "DROP TABLE regions", f"CREATE VIEW regions AS {endless}"),
            (run, "CREATE TRIGGER t AFTER INSERT ON regions BEGIN DELETE FROM runs; END"),
            (run, "CREATE INDEX i ON regions (hex(identity))"), ([
                "tune", "--export", "out.json", "--db",
                "own.db"], "UPDATE regions SET name = hex(zeroblob(25000000))")):
            with self.subTest(statements=statements):
                (self.folder / "own.db").unlink(missing_ok=True)
                self.database(*statements)
                began = time.monotonic()
                self.assertIn("restore it from an export",
                              self.refused(4, "the tuning database own.db is damaged: ", *command))
                self.assertLess(time.monotonic() - began, 10)

    def test_too_many_rows(self):
        self.database(
            "INSERT INTO environments VALUES (1, 'd', 't', '', 'g', 'f32', 2)",
            "INSERT INTO runs VALUES (1, 1, 'm', 'd', 1, 1, 1, 1, 1, 1, 1, 'now', '')",
            "INSERT INTO tables VALUES (1, 1, 1)",
            "WITH RECURSIVE c(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) INSERT INTO entries SELECT 1, 1, x, '[[1,2,1]]', '[[1,2,1]]', "
            "'map', 1, 1, 1 FROM c")
        self.refused(4, "a region has more than 1024 rows", "tune", "--show", "--db", "own.db")

    def test_a_schedule_of_many_fields(self):
        fields = " ".join(f"f{i}=1" for i in range(40000))
        self.database(
            "INSERT INTO environments VALUES (1, 'd', 't', '', 'g', 'f32', 2)",
            "INSERT INTO runs VALUES (1, 1, 'm', 'd', 1, 1, 1, 1, 1, 1, 1, 'now', '')",
            "INSERT INTO tables VALUES (1, 1, 1)",
            f"INSERT INTO entries VALUES (1, 1, 0, '[[1,2,1]]', '[[1,2,1]]', 'map {fields}', 1, 1, 1)"
        )
        self.refused(4, "it has more than 64 fields", "tune", "--show", "--db", "own.db")

    def test_numbers_that_are_none(self):
        self.database(
            "INSERT INTO environments VALUES (1, 'd', 't', '', 'g', 'f32', 2)",
            "INSERT INTO runs VALUES (1, 1, 'm', 'd', 1, 1, 1, 1, 1, 1, 1, 'now', '')",
            "INSERT INTO tables VALUES (1, 1, 1)",
            "INSERT INTO entries VALUES (1, 1, 0, '[[1,2,1]]', '[[1,2,1]]', 'map', 9e999, 1, 1)")
        self.refused(4, "seconds are inf, not a number of at least 0", "tune", "--show", "--db",
                     "own.db")

    def test_no_file_at_all(self):
        for device in ("/dev/zero", "/dev/null", "/dev/full"):
            self.refused(4, f"{device} is no tuning database: it is no regular file", "tune",
                         "--show", "--db", device)
            self.refused(4, f"{device} is no tuning database: it is no regular file", "run",
                         "m.anydim", "--input", "x=x.npy", "--db", device)
            self.refused(4, f"{device} is no tuning database: it is no regular file", "tune",
                         "--import", "export.json", "--db", device)
            self.refused(4, f"{device}: this is no regular file", "tune", "--import", device,
                         "--db", "own.db")

    def test_a_damaged_default_database_is_only_warned_of(self):
        self.anydim("run", "m.anydim", "--input", "x=x.npy")
        self.database("DROP TABLE entries")
        shutil.move(self.folder / "own.db", self.folder / "cache" / "anydim" / "tuning.db")
        done = self.anydim("run", "m.anydim", "--input", "x=x.npy")
        self.assertEqual((done.returncode, done.stdout), (0, b"y: f32 (1) = 1\n"), done.stderr)
        self.assertIn(b"warning: the tuning database", done.stderr)
        self.assertIn(b"is damaged", done.stderr)

    def test_deeply_nested_json(self):
        deep = "[" * 200000
        (self.folder / "deep.json").write_text(deep)
        self.refused(
            4,
            "deep.json: this is no export of a tuning database: it is no JSON, or nests too deep",
            "tune", "--import", "deep.json", "--db", "own.db")
        closed = "[" * 200000 + "]" * 200000
        (self.folder / "deep.json").write_text(closed)
        self.refused(4, "it is no JSON, or nests too deep", "tune", "--import", "deep.json", "--db",
                     "own.db")
        self.refused(4, "deep.json:1: expected a JSON list of token ids", "bench", "m.anydim",
                     "--tokens", "deep.json", "--batch", "1")
        self.refused(4, "deep.json:1: expected a length or a JSON list of token ids", "tune",
                     "m.anydim", "--lengths", "deep.json", "--db", "own.db", "--budget", "1s")
        self.refused(4, "this is no trace of shapes", "tune", "m.anydim", "--trace", "deep.json",
                     "--db", "own.db", "--budget", "1s")
        self.database(
            "INSERT INTO environments VALUES (1, 'd', 't', '', 'g', 'f32', 2)",
            "INSERT INTO runs VALUES (1, 1, 'm', 'd', 1, 1, 1, 1, 1, 1, 1, 'now', '')",
            "INSERT INTO tables VALUES (1, 1, 1)",
            f"INSERT INTO entries VALUES (1, 1, 0, '{closed}', '[[1,2,1]]', 'map', 1, 1, 1)")
        self.refused(4, "is no list of numbers", "tune", "--show", "--db", "own.db")


if __name__ == "__main__":
    unittest.main()
