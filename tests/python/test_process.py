"""The package in a process: importing it, its end, forks, and what else is loaded."""

import multiprocessing
import os
import pathlib
import select
import signal
import subprocess
import sys
import traceback

import numpy as np
import pytest

import anydim
from models import ADD, DENSE, SANITIZED

HERE = pathlib.Path(__file__).parent
ONES = np.ones(4, "float32")
PRELUDE = f"import sys; sys.path.insert(0, {str(HERE)!r})\n"


def run(program, **options):
    done = subprocess.run([sys.executable, "-c", PRELUDE + program], capture_output=True, text=True,
                          timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled_sources(folder):
    """Where Python keeps what it compiled, as in an installed package."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


# Times here are of processors, which other processes on the machine move less than the clock's.
def test_importing_is_quick_and_brings_no_numpy(tmp_path):
    program = "import time\nbegan = time.process_time()\nimport anydim\nprint(time.process_time() - began)\nassert 'numpy' not in sys.modules and 'asyncio' not in sys.modules"
    assert min(float(run(program, env=compiled_sources(tmp_path))) for _ in range(5)) <= 0.1


def test_only_the_entry_is_exported():
    names = subprocess.run(["nm", "-D", "--defined-only", anydim._anydim.__file__],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    assert [line.split()[-1] for line in names if line] == ["PyInit__anydim"]


@pytest.mark.parametrize("order", ["anydim, onnxruntime, onnx", "onnxruntime, onnx, anydim"])
def test_beside_other_libraries_that_bring_their_own_protobuf(order):
    """scripts/python_peers.sh does the same with torch, which brings an LLVM too."""
    program = f"import {order}\nfrom models import ADD\nimport numpy as np\nx = np.ones(4, 'float32')\nprint(anydim.compile(ADD.encode(), threads=1).run(dict(x=x, y=x))['z'])"
    assert run(program) == "[2. 2. 2. 2.]\n"


def test_the_process_ends_while_kernels_are_compiled():
    """A model that nothing dropped, one in a cycle, and threads at work: none keeps the interpreter
    from its end, or dies of it."""
    program = """
import anydim, threading, numpy as np
from models import DENSE, ENCODER
class Holder: pass
holder = Holder()
holder.itself, holder.model = holder, anydim.compile(DENSE.encode(), cache=False, threads=2)
model = anydim.compile(ENCODER.encode(), cache=False, threads=2)
x = np.ones((2, 2), "int64")
def work():
    while True: model.run({"ids": x, "mask": x})
threading.Thread(target=work, daemon=True).start()
"""
    for _ in range(3):
        assert run(program) == ""


def in_child(work):
    """Runs it in a forked child, which must end well within seconds."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    child = os.pidfd_open(pid)
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert ended, "the child did not end"
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child(build, cache):
    """A model of the parent's is told apart; one that the child compiles works; dropping the
    parent's waits for nothing."""
    model = build(ADD)
    model.run({"x": ONES, "y": ONES})

    def child():
        nonlocal model
        for call in (lambda: model.run({"x": ONES, "y": ONES}), lambda: model.inputs,
                     lambda: model.stats()):
            with pytest.raises(anydim.ForkedError, match="made in the parent of this process"):
                call()
        own = anydim.compile(ADD.encode(), cache_dir=cache, database=False, threads=2)
        assert (own.run({"x": ONES, "y": ONES})["z"] == 2).all()
        own.close()
        model = None

    in_child(child)
    assert (model.run({"x": ONES, "y": ONES})["z"] == 2).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_that_ends_as_programs_do():
    program = """
import anydim, os, numpy as np
from models import ADD
model = anydim.compile(ADD.encode(), threads=2)
pid = os.fork()
if pid: print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    with model: pass
"""
    assert run(program) == "0\n"


def compiled_sum(number):
    model = anydim.compile(ADD.encode(), threads=1)
    x = np.full(4, number, "float32")
    return model.run({"x": x, "y": x})["z"].tolist()


def test_workers_that_are_spawned():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(compiled_sum, [1, 2]) == [[2.0] * 4, [4.0] * 4]


@pytest.mark.skipif(SANITIZED, reason="a time")
def test_the_first_result_comes_as_quickly_as_the_commands(tmp_path):
    """With warm kernels, both from start to result: importing NumPy is not Anydim's."""
    (tmp_path / "m.anydim").write_text(DENSE)
    rng = np.random.default_rng(1)
    for name, shape in (("x", (2, 3, 8)), ("w", (8, 4)), ("b", (4,))):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal(shape, "float32"))
    command = [os.environ["ANYDIM"], "run", "m.anydim", "--cache-dir", "kernels"]
    for name in "xwb":
        command += ["--input", f"{name}={name}.npy"]
    program = """
import time, numpy as np
began = time.process_time()
import anydim
anydim.compile("m.anydim", cache_dir="kernels").run({name: np.load(name + ".npy") for name in "xwb"})
print(time.process_time() - began)
"""

    def seconds_of_the_command():
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    ours, theirs = [], []
    for _ in range(5):
        theirs.append(seconds_of_the_command())
        ours.append(float(run(program, cwd=tmp_path, env=compiled_sources(tmp_path))))
    assert min(ours) < min(theirs) + 0.05, (ours, theirs)
