"""Bad models, inputs, caches and disks: the whole message and the exit code of each. ANYDIM names
the command; only Python's own library is needed."""
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
TINY = MODELS / "tiny_bert.onnx"


def npy(path, descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def i64(path, rows):
    npy(path, "<i8", (len(rows), len(rows[0])) if rows else (0, 4),
        b"".join(struct.pack("<q", value) for row in rows for value in row))


def field(tag, content):
    """A protobuf field of bytes."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([(size & 0x7F) | 0x80])
        size >>= 7
    return bytes([tag]) + length + bytes([size]) + content


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anydim_bad_input_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                LC_ALL="C.UTF-8")

    def anydim(self, *words, **more):
        return subprocess.run([os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=120,
                              check=False, **more)

    def refused(self, code, message, *words, **more):
        done = self.anydim(*words, **more)
        self.assertEqual((done.returncode, done.stderr, done.stdout),
                         (code, f"anydim: {message}\n", ""))

    def tiny_inputs(self, rows):
        """Input arguments of tiny_bert.onnx, the ids being `rows`."""
        i64(self.folder / "ids.npy", rows)
        i64(self.folder / "ones.npy", [[1] * len(row) for row in rows])
        i64(self.folder / "zeros.npy", [[0] * len(row) for row in rows])
        files = {
            "input_ids": "ids.npy", "attention_mask": "ones.npy", "token_type_ids": "zeros.npy"}
        words = []
        for name in self.tiny_names():
            words += ["--input", f"{name}={files[name]}"]
        return words

    def tiny_names(self):
        text = self.anydim("opt", TINY, "--passes", "none").stdout
        return [
            name for name in ("input_ids", "attention_mask", "token_type_ids")
            if f"%{name}:" in text.split(")", 1)[0] or f"%{name}:" in text]


class Models(BadInput):
    def test_a_machine_without_a_gpu(self):
        done = self.anydim("run", TINY, "--device", "cuda", *self.tiny_inputs([[1, 2]]))
        if done.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertRegex(
            done.stderr,
            r"^anydim: (there is no CUDA driver here \(.*\)|the CUDA driver finds no GPU); .*use --device cpu\n$"
        )

    def test_truncated(self):
        (self.folder / "m.onnx").write_bytes(TINY.read_bytes()[:20000])
        self.refused(
            4,
            "model 'm.onnx' is not an ONNX model: its 20000 bytes are truncated, damaged, nested too deeply or of another format",
            "run", "m.onnx")

    def test_empty(self):
        (self.folder / "m.onnx").write_bytes(b"")
        self.refused(4, "model 'm.onnx' is empty: expected an ONNX model", "run", "m.onnx")

    def test_no_protobuf(self):
        (self.folder / "m.onnx").write_bytes(b"This is a letter, not a model.\n")
        self.refused(
            4,
            "model 'm.onnx' is not an ONNX model: its 31 bytes are truncated, damaged, nested too deeply or of another format",
            "run", "m.onnx")

    def test_deeply_nested(self):
        nested = b""
        while len(nested) < 1 << 18:  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            for tag in (0x32, 0x2A, 0x0A):
                nested = field(tag, nested)
        nested = field(0x3A, nested)  # ModelProto.graph
        (self.folder / "m.onnx").write_bytes(nested)
        self.refused(
            4,
            f"model 'm.onnx' is not an ONNX model: its {len(nested)} bytes are truncated, damaged, nested too deeply or of another format",
            "run", "m.onnx")

    def test_missing_weights(self):
        shutil.copy(MODELS / "minilm.onnx", self.folder / "m.onnx")
        self.refused(
            4,
            "tensor 'bert.embeddings.word_embeddings.weight' has its data in the file 'model.safetensors', which is missing: expected it at "
            "'./model.safetensors', beside the model", "run", "m.onnx")

    def test_short_weights(self):
        shutil.copy(MODELS / "minilm.onnx", self.folder / "m.onnx")
        (self.folder / "model.safetensors").write_bytes(b"\0" * 1000)
        self.refused(
            4,
            "tensor 'bert.embeddings.word_embeddings.weight' has its data in the file 'model.safetensors', 46881792 bytes from offset "
            "808088, but the file ends at 1000", "run", "m.onnx")

    def test_links_that_leave_the_folder(self):
        (self.folder / "inside").mkdir()
        shutil.copy(MODELS / "minilm.onnx", self.folder / "inside" / "m.onnx")
        (self.folder / "model.safetensors").write_bytes(b"\0" * 1000)
        (self.folder / "inside" / "model.safetensors").symlink_to("../model.safetensors")
        self.refused(
            4,
            "tensor 'bert.embeddings.word_embeddings.weight' has its data in the file 'model.safetensors', a link that leaves the model's folder",
            "run", "inside/m.onnx")


class Calls(BadInput):
    def test_good(self):
        done = self.anydim("run", TINY, *self.tiny_inputs([[1, 2, 3], [4, 5, 6]]), "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("outputs", json.loads(done.stdout))

    def test_empty_batch(self):
        for name, value in (("ids", 0), ("ones", 1), ("zeros", 0)):
            del value
            npy(self.folder / f"{name}.npy", "<i8", (0, 4), b"")
        files = {
            "input_ids": "ids.npy", "attention_mask": "ones.npy", "token_type_ids": "zeros.npy"}
        words = [
            word for name in self.tiny_names() for word in ("--input", f"{name}={files[name]}")]
        done = self.anydim("run", TINY, *words, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for output in json.loads(done.stdout)["outputs"]:
            self.assertEqual(output["dims"][0], 0)

    def test_token_past_the_vocabulary(self):
        self.refused(
            5,
            "gather index of '/m/embeddings/word_embeddings/Gather': expected from -200 to 199, got 1000000",
            "run", TINY, *self.tiny_inputs([[1, 1000000]]))

    def test_text_too_long(self):
        self.refused(
            5,
            "input 'input_ids', dimension 1 (seq): expected at most 128, got 5000; the range comes from dyn.broadcast_to "
            "'/m/embeddings/Expand_1' (%/m/embeddings/Expand_1_output_0).", "run", TINY,
            *self.tiny_inputs([[1] * 5000]))

    def test_malformed_array(self):
        words = self.tiny_inputs([[1, 2]])
        (self.folder / "ids.npy").write_bytes((self.folder / "ids.npy").read_bytes()[:-1])
        self.refused(4, "ids.npy: shape (1, 2) of '<i8' needs 16 bytes, but the file holds 15",
                     "run", TINY, *words)

    @unittest.skipIf(os.environ.get("ANYDIM_SANITIZE"),
                     "sanitizers reserve more address space than the limit")
    def test_no_memory(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        (self.folder / "m.anydim").write_text(
            "fn @main(%x: Tensor[(n, 1), f32], %y: Tensor[(1, n), f32]) {\n  %z = add(%x, %y)\n  return %z\n}\n"
        )
        npy(self.folder / "x.npy", "<f4", (50000, 1), b"\0" * 200000)
        npy(self.folder / "y.npy", "<f4", (1, 50000), b"\0" * 200000)
        self.refused(6, "out of memory: a block of 10000000000 bytes was refused", "run",
                     "m.anydim", "--input", "x=x.npy", "--input", "y=y.npy", preexec_fn=limit)


class Caches(BadInput):
    def model(self):
        (self.folder / "m.anydim"
         ).write_text("fn @main(%x: Tensor[(n), f32]) {\n  %y = relu(%x)\n  return %y\n}\n")
        npy(self.folder / "x.npy", "<f4", (1,), struct.pack("<f", 2))
        return ["run", "m.anydim", "--input", "x=x.npy", "--cache-dir", "kernels"]

    def warned(self, message):
        done = self.anydim(*self.model())
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr),
            (0, "y: f32 (1) = 2\n", f"anydim: warning: {message}\n" if message else ""))

    def test_open_to_others(self):
        (self.folder / "kernels").mkdir()
        (self.folder / "kernels").chmod(0o777)
        self.warned(
            "cache folder kernels can be written by other users (its mode should be 0700), so kernels are not kept"
        )

    def test_foreign(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a folder away")
        (self.folder / "kernels").mkdir(mode=0o700)
        os.chown(self.folder / "kernels", 1, 1)
        self.warned("cache folder kernels belongs to another user, so kernels are not kept")

    def test_damaged_kernels(self):
        self.warned("")
        kernels = sorted((self.folder / "kernels").glob("*.kernel"))
        self.assertTrue(kernels)
        for kernel in kernels:
            kernel.write_bytes(kernel.read_bytes()[:-1] + b"!")
        done = self.anydim(*self.model())
        self.assertEqual((done.returncode, done.stdout), (0, "y: f32 (1) = 2\n"))
        self.assertEqual(
            sorted(done.stderr.splitlines()),
            sorted(
                f"anydim: warning: cached kernel {kernel.relative_to(self.folder)} is ignored: its hash does not fit"
                for kernel in kernels))
        self.warned("")


class Disks(BadInput):
    def test_full(self):
        """A file size limit stands for the full disk: writing fails half way in the same place."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        (self.folder / "m.anydim"
         ).write_text("fn @main(%x: Tensor[(n), f32]) {\n  %y = relu(%x)\n  return %y\n}\n")
        npy(self.folder / "x.npy", "<f4", (100000,), b"\0" * 400000)
        done = self.anydim("run", "m.anydim", "--input", "x=x.npy", "--output", "out",
                           preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (7, "", "anydim: out/y.npy: cannot be written (File too large)\n"))
        self.assertEqual(list((self.folder / "out").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
