"""The CPU of a campaign's machine as a worker: cases in, one JSON object a line, what became of
them out. usage: cpu_worker.py ANYDIM FOLDER. ANYDIM is a self-contained build with the CPU's code
generator (preset portable), FOLDER takes kernels and models. Times an encoder of text form with so
many threads, in f32 and bf16, and between them ONNX Runtime on an export of the same sizes, where
that and PyTorch are installed."""
import json
import os
import pathlib
import subprocess
import sys
import time

import ladder
from encoder import encoder

SECONDS = 1.0  # of calls, of each engine
MOST_SECONDS = 60  # of one engine's, with all that comes before


def median(values):
    return sorted(values)[len(values) // 2]


def ours(program, folder, case, precision):
    """Median microseconds of a call; the model's own type is the precision that products run in."""
    sizes = ladder.MODELS[case["model"]][0]
    model = folder / f"{case['model']}.anydim"
    model.write_text(encoder(*sizes, dtype="f32"), encoding="utf8")
    batch, length = case["dims"]
    done = subprocess.run([
        program, "bench",
        str(model), *(word for name in ("ids", "mask")
                      for word in ("--shape", f"{name}={batch}x{length}")), "--threads",
        str(case["threads"]), "--precision", precision, "--duration",
        str(SECONDS), "--iterations", "3", "--warm-up", "0.3", "--cache-dir",
        str(folder / "kernels"), "--json", "--quiet"], capture_output=True, text=True,
                          timeout=MOST_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"anydim bench: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def exported(folder, name):
    """An ONNX file of a BertModel of the model's sizes, with random weights; made once."""
    file = folder / f"{name}.onnx"
    if not file.exists():
        import torch
        from torch_worker import bert

        class Encoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = bert(ladder.MODELS[name][0], "cpu")

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        dims = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=512)}
        given = torch.ones(2, 12, dtype=torch.long)
        partial = file.with_suffix(".partial")
        torch.onnx.export(Encoder(), (given, given), input_names=["ids", "mask"],
                          dynamic_shapes=(dims, dims), dynamo=True,
                          verbose=False).save(str(partial), external_data=False)
        partial.rename(file)
    return file


class Peer:
    """ONNX Runtime, a session for each model and number of threads."""

    def __init__(self, folder):
        self.folder, self.why = folder, None
        try:
            import numpy
            import onnxruntime
            self.numpy, self.onnxruntime = numpy, onnxruntime
        except ImportError as error:
            self.why = str(error)

    def median_us(self, case):
        options = self.onnxruntime.SessionOptions()
        options.intra_op_num_threads = case["threads"]
        options.log_severity_level = 3
        session = self.onnxruntime.InferenceSession(str(exported(self.folder, case["model"])),
                                                    options, providers=["CPUExecutionProvider"])
        ones = self.numpy.ones(case["dims"], dtype=self.numpy.int64)
        feeds = {each.name: ones for each in session.get_inputs()}
        times, until = [], None
        while until is None or time.perf_counter() < until or len(times) < 3:
            begin = time.perf_counter()
            session.run(None, feeds)
            if until is not None:
                times.append(1e6 * (time.perf_counter() - begin))
            until = until or time.perf_counter() + SECONDS
        return median(times)


def run(program, folder, peer, case):
    row = {name: case[name] for name in ("model", "dims", "threads")}
    row["f32_us"] = ours(program, folder, case, "f32")["p50_ms"] * 1e3
    if peer.why is None:
        try:
            row["onnxruntime_us"] = peer.median_us(case)
        # An export that fails must not cost our own times.
        except Exception as error:  # pylint: disable=broad-exception-caught
            peer.why = f"{type(error).__name__}: {error}"[:300]
    row["bf16_us"] = ours(program, folder, case, "bf16")["p50_ms"] * 1e3
    return {"rows": [row], **({"no_peer": peer.why} if peer.why else {})}


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    peer = Peer(folder)
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps({"begin": case["id"]}), flush=True)
        try:
            end = {"processors": len(os.sched_getaffinity(0))
                   } if case["kind"] == "information" else run(program, folder, peer, case)
        # Whatever it is, the next case may serve.
        except Exception as error:  # pylint: disable=broad-exception-caught
            end = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps({"end": case["id"], **end}), flush=True)


if __name__ == "__main__":
    main()
