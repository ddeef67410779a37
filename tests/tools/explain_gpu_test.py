"""`anydim explain --gpu`: what a part that is not here would launch, and its kernels as files. No
driver is on the loader's path. ANYDIM names the command, ANYDIM_NVDISASM NVIDIA's disassembler, if
there is one."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = """fn @main(%x: Tensor[(n, 768), bf16]) where n in [1, 4096] {
  %w = constant(bf16 (768, 1536) @random(1))
  %y = matmul(%x, %w)
  %p = softmax(%y) {axis = -1}
  return %p
}
"""


class ExplainGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_explain_gpu_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "m.anydim").write_text(PROGRAM)

    def anydim(self, *words, code=0, **environment):
        done = subprocess.run([os.environ["ANYDIM"], *map(str, words)], cwd=self.folder,
                              env={**os.environ, "HOME": str(self.folder), **environment},
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def explain(self, *words, shape="x=300x768", **more):
        return self.anydim("explain", "m.anydim", "--device", "cuda", "--gpu", "h200", "--shape",
                           shape, *words, **more)

    def test_says_what_would_be_launched(self):
        plan = json.loads(self.explain("--json"))
        self.assertEqual(plan["part"], "GPU sm_90a of 132 multiprocessors and 141 GB")
        self.assertEqual([launch["keys"] for launch in plan["launches"]],
                         [{"s0": 300}] * len(plan["launches"]))
        text = self.explain()
        for launch in plan["launches"]:
            kernel = plan["kernels"][launch["kernel"]]
            self.assertIn(
                f"schedule {kernel['schedule']} (predicted); estimated {launch['estimated_us']:.2f} us",
                text)
            self.assertGreater(launch["estimated_us"], 0)
            for entry in kernel["entries"]:
                self.assertGreater(entry["threads"], 0)
                self.assertIn(f"{entry['name']}: grid {entry['grid']}, {entry['threads']} threads",
                              text)
        for kernel in plan["kernels"]:
            self.assertIn(
                f"{kernel['region']}  {kernel['bucket']}  {kernel['schedule']}: predicted, {kernel['expected_us']:.2f} us",
                text)

    def test_another_size_takes_another_row(self):
        used = [
            json.loads(self.explain("--json", shape=f"x={rows}x768"))["launches"][0]["kernel"]
            for rows in (1, 4096)]
        self.assertNotEqual(*used)

    def files(self, form):
        plan = json.loads(self.explain("--json", "--emit", form, form))
        files = sorted(self.folder / file for file in plan["files"])
        self.assertEqual(files, sorted((self.folder / form).iterdir()))
        kernels = sorted((plan["kernels"][launch["kernel"]] for launch in plan["launches"]),
                         key=lambda kernel: kernel["region"])
        self.assertEqual(len(files), len(kernels))
        for file, kernel in zip(files, kernels):  # a kernel is launched once here
            self.assertTrue(file.name.startswith(kernel["region"]), file)
        return [file.read_text() for file in files], kernels

    def test_kernels_as_files(self):
        texts, kernels = self.files("cuda")
        for text, kernel in zip(texts, kernels):
            self.assertIn(kernel["schedule"], text.splitlines()[0])
            for entry in kernel["entries"]:
                self.assertRegex(
                    text, rf'extern "C" __global__ void __launch_bounds__\(.*\) {entry["name"]}\(')
        for text, kernel in zip(*self.files("ptx")):
            self.assertIn(".target sm_90a", text)
            for entry in kernel["entries"]:
                self.assertIn(f".visible .entry {entry['name']}(", text)

    def test_machine_code(self):
        if os.environ.get("ANYDIM_NVDISASM"):
            for text, kernel in zip(*self.files("sass")):
                for entry in kernel["entries"]:
                    self.assertIn(f".text.{entry['name']}:", text)
        self.assertIn(
            "nowhere cannot read machine code (No such file or directory); install it (PyPI nvidia-cuda-nvdisasm) and name it by ANYDIM_NVDISASM",
            self.explain("--emit", "sass", "none", code=6, ANYDIM_NVDISASM="nowhere"))
        self.assertEqual(list((self.folder / "none").iterdir()), [])

    def test_tables_that_were_tuned_for_the_part(self):
        self.anydim("tune", "m.anydim", "--device", "cuda", "--gpu", "h200", "--distribution",
                    "constant(300)", "--budget", "20s", "--db", "tuned.db", "--threads", "3")
        plan = json.loads(self.explain("--json", "--db", "tuned.db", "--threads", "1"))
        self.assertEqual(
            {plan["kernels"][launch["kernel"]]["chosen"] for launch in plan["launches"]},
            {"tuned, predicted"})

    def test_what_cannot_be_asked_for(self):
        self.assertIn(
            "--emit writes the kernels of a part; say of which by --gpu and --device cuda",
            self.anydim("explain", "m.anydim", "--shape", "x=3x768", "--emit", "cuda", "d", code=2))
        self.assertIn(
            "--gpu names a part; give --device cuda too",
            self.anydim("explain", "m.anydim", "--shape", "x=3x768", "--gpu", "h200", code=2))
        self.assertIn("--emit voodoo: expected cuda, ptx or sass, and a folder",
                      self.explain("--emit", "voodoo", "d", code=2))
        self.assertIn(
            "there is no GPU 'voodoo' to predict for; there are a100,",
            self.anydim("explain", "m.anydim", "--device", "cuda", "--gpu", "voodoo", "--shape",
                        "x=3x768", code=2))
        self.assertIn(
            "explain needs a number for 'n' of input",
            self.anydim("explain", "m.anydim", "--device", "cuda", "--gpu", "h200", code=2))


if __name__ == "__main__":
    unittest.main()
