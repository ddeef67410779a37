"""`anydim tune --show`, --export, --import and --merge, and databases that cannot be used. ANYDIM
names the command; only Python's own library is needed."""
import json
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

RUN = {
    "model": "minilm.onnx", "distribution": "constant(8)", "budget_seconds": 60.0,
    "most_kernels": 4, "kernels": 2, "trials": 9, "expected_seconds": 0.5,
    "lower_bound_seconds": 0.4, "default_seconds": 0.6, "finished": "2026-11-21T14:45:00Z",
    "report": ""}
RESOURCES = {
    "code_bytes": 1, "instructions": 2, "spills": 0, "registers": 0, "stack_bytes": 0,
    "shared_bytes": 0}
EXPORT = {
    "format": "anydim tuning database", "schema": 2,
    "regions": [{"identity": "body", "name": "matmul_0", "description": ""}], "environments": [{
        "device": "processor", "target": "x86-64", "driver": "", "generator": "g",
        "precision": "f32", "threads": 2, "measurements": [{
            "region": 0, "keys": [8], "schedule": "matmul rows=8", "multiples": [], "outcome": "ok",
            "measured": True, "seconds": 2e-6, "spread": 0.01, "samples": 20,
            "resources": RESOURCES, "detail": ""}], "runs": [RUN], "tables": [{
                "region": 0, "run": RUN, "entries": [{
                    "bucket": [[1, 15, 1]], "kernel": [[1, 512, 1]], "schedule": "matmul rows=8",
                    "seconds": 2e-6, "measured": True, "roofline_seconds": 1e-6}, {
                        "bucket": [[1, 512, 1]], "kernel": [[1, 512,
                                                             1]], "schedule": "matmul rows=16",
                        "seconds": 4e-6, "measured": False, "roofline_seconds": 0.0}]}]}]}
SHOWN = """own.db: 1 measurements, 1 tuned regions

processor, f32, 2 threads; x86-64; generator g

  matmul_0  for minilm.onnx, constant(8), at 2026-11-21T14:45:00Z
    [1, 15]  matmul rows=8  2.00 us, 50 % of the roofline  tuned, measured
    [1, 512]  matmul rows=16  4.00 us  tuned, predicted
"""
MODEL = "fn @main(%x: Tensor[(n), f32]) {\n  %y = relu(%x)\n  return %y\n}\n"


class TuneDatabase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_tune_database_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                LC_ALL="C.UTF-8")
        (self.folder / "export.json").write_text(json.dumps(EXPORT))
        (self.folder / "m.anydim").write_text(MODEL)

    def anydim(self, *words, **more):
        return subprocess.run([os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=120,
                              check=False, **more)

    def prints(self, text, *words):
        done = self.anydim(*words)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", text))

    def refused(self, code, message, *words, **more):
        done = self.anydim(*words, **more)
        self.assertEqual((done.returncode, done.stderr, done.stdout),
                         (code, f"anydim: {message}\n", ""))

    def own(self):
        self.prints("own.db: took over 1 measurements, 1 tables, 1 runs\n", "tune", "--db",
                    "own.db", "--import", "export.json")

    def test_import_show_export_merge(self):
        self.own()
        self.prints(SHOWN, "tune", "--db", "own.db", "--show")
        self.prints("", "tune", "--db", "own.db", "--export", "again.json")
        self.assertEqual(json.loads((self.folder / "again.json").read_text()), EXPORT)
        self.prints("other.db: took over 1 measurements, 1 tables, 1 runs\n", "tune", "--db",
                    "other.db", "--merge", "own.db")
        self.prints('{"database":"other.db","measurements":0,"tables":0,"runs":0}\n', "tune",
                    "--db", "other.db", "--merge", "own.db", "--json")
        self.prints("", "tune", "--db", "other.db", "--export", "other.json")
        self.assertEqual((self.folder / "again.json").read_text(),
                         (self.folder / "other.json").read_text())
        shown = json.loads(self.anydim("tune", "--db", "own.db", "--show", "--json").stdout)
        self.assertEqual(shown["tables"][0]["entries"][0]["share_of_roofline"], 0.5)

    def test_the_users_own_database(self):
        (self.folder / "cache" / "anydim").mkdir(parents=True, mode=0o700)
        done = self.anydim("tune", "--import", "export.json")
        self.assertEqual(
            done.stdout,
            f"{self.folder}/cache/anydim/tuning.db: took over 1 measurements, 1 tables, 1 runs\n")
        # One in the current folder is never taken by itself.
        shutil.copy(self.folder / "cache/anydim/tuning.db", self.folder / "tuning.db")
        (self.folder / "cache/anydim/tuning.db").unlink()
        self.refused(4, f"{self.folder}/cache/anydim/tuning.db: there is no such tuning database",
                     "tune", "--show")

    def test_two_wishes_at_once(self):
        self.refused(2, "tune takes one of --show, --export, --import and --merge at a time",
                     "tune", "--db", "own.db", "--show", "--merge", "other.db")

    def test_wrong_imports(self):
        self.own()
        before = (self.folder / "own.db").read_bytes()
        start = "wrong.json: this is no export of a tuning database: "
        for text, why in (("nonsense", "it is no JSON, or nests too deep"),
                          ("{}", '"format" is not "anydim tuning database"'),
                          (json.dumps(dict(EXPORT, schema=7)),
                           "it is of a newer Anydim (schema 7, this one knows up to 2)")):
            (self.folder / "wrong.json").write_text(text)
            self.refused(4, start + why, "tune", "--db", "own.db", "--import", "wrong.json")
        self.refused(4, "none.json: there is no such file", "tune", "--db", "own.db", "--import",
                     "none.json")
        self.assertEqual((self.folder / "own.db").read_bytes(), before)

    def test_databases_that_cannot_be_used(self):
        self.own()
        explain = ("explain", "m.anydim", "--shape", "x=3", "--db")
        (self.folder / "text.db").write_text("x" * 5000)
        self.refused(4, "text.db is no tuning database: it is no file of SQLite", *explain,
                     "text.db")
        with sqlite3.connect(self.folder / "foreign.db") as foreign:
            foreign.execute("CREATE TABLE t (a)")
        self.refused(4, "foreign.db is no tuning database: it is another program's SQLite file",
                     *explain, "foreign.db")
        self.refused(4, "none.db: there is no such tuning database", *explain, "none.db")
        shutil.copy(self.folder / "own.db", self.folder / "newer.db")
        with sqlite3.connect(self.folder / "newer.db") as newer:
            newer.execute("PRAGMA user_version = 3")
        self.refused(
            4,
            "the tuning database newer.db was written by a newer Anydim (schema 3, this one knows up to 2); use that one, or name another file",
            *explain, "newer.db")
        shutil.copy(self.folder / "own.db", self.folder / "damaged.db")
        with open(self.folder / "damaged.db", "r+b") as damaged:
            for at in range(4096, (self.folder / "own.db").stat().st_size, 256):
                damaged.seek(at)
                damaged.write(b"damage!")
        done = self.anydim("tune", "--show", "--db", "damaged.db")
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertRegex(
            done.stderr,
            r"^anydim: the tuning database damaged\.db is damaged: .*; restore it from an export, or remove it and tune again\n$"
        )

    def test_a_database_that_another_process_holds(self):
        self.own()
        holder = sqlite3.connect(self.folder / "own.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        self.refused(
            7,
            "the tuning database own.db is locked by another process; let that one end, or name another file",
            "tune", "--show", "--db", "own.db")
        holder.execute("ROLLBACK")

    def test_a_full_disk(self):
        self.own()
        before = self.anydim("tune", "--show", "--db", "own.db").stdout
        more = json.loads(json.dumps(EXPORT))
        more["environments"][0]["measurements"] = [
            dict(more["environments"][0]["measurements"][0], keys=[key]) for key in range(2000)]
        (self.folder / "more.json").write_text(json.dumps(more))

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (80000, 80000))

        done = self.anydim("tune", "--db", "own.db", "--import", "more.json",
                           preexec_fn=small_files)
        self.assertEqual((done.returncode, done.stdout), (7, ""))
        self.assertRegex(done.stderr,
                         r"^anydim: the tuning database own\.db.*what was kept before is safe\n$")
        self.prints(before, "tune", "--show", "--db", "own.db")

    def test_a_missing_own_database_is_nothing(self):
        done = self.anydim("explain", "m.anydim", "--shape", "x=3", "--policy", "symbolic")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("(predicted); ", done.stdout)


unittest.main()
