"""Models: anydim.compile and what it gives."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _anydim
from .errors import OptionError


class TensorInfo(NamedTuple):
    """An input or result: ``dtype`` as NumPy names it ("float32", "int64", "bfloat16"); a dim is a
    number, or an expression over the model's symbols as text."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Symbol(NamedTuple):
    """What is known of an unknown extent: at least ``low``, at most ``high``, a multiple of
    ``multiple``; ``reason`` names the node that narrowed it."""

    low: int
    high: int
    multiple: int
    reason: str


class MemoryCeiling(NamedTuple):
    """What a call may hold at most while it runs, in bytes: activations (None where they have no
    bound, for ``unbounded_because``) and weights, which calls share."""

    arena_bytes: int | None
    unbounded_because: str
    constant_bytes: int


class Latency(NamedTuple):
    """Seconds of a call, each quantile at most 1/16 above what was measured; 0 without calls."""

    p50: float
    p90: float
    p99: float
    p999: float
    most: float


class Calls(NamedTuple):
    """Since the model was compiled: calls that gave results, and the way they took; calls that
    raised; rows of inputs (of models whose mask is known), of which so many were computed and so
    many take part; seconds of all calls, one after another."""

    calls: int
    failed: int
    packed: int
    padded: int
    ragged: int
    tokens_given: int
    tokens_computed: int
    tokens_useful: int
    seconds: float
    latency: Latency


class Kernels(NamedTuple):
    """Pieces of code that dispatch tables name: read from the cache, compiled, failed (general ones
    serve) and still to come."""

    entries: int
    from_cache: int
    compiled: int
    failed: int
    pending: int


class Memory(NamedTuple):
    """Bytes of weights as kernels read them, of code, and of what contexts hold between calls."""

    constant_bytes: int
    code_bytes: int
    held_bytes: int


class Statistics(NamedTuple):
    """One look at a model at work; ``copied_inputs``: of all calls, those whose layout kernels do
    not read. No result is copied."""

    calls: Calls
    kernels: Kernels
    memory: Memory
    copied_inputs: int


class Launch(NamedTuple):
    """One kernel of a call: the region and the nodes it came from; extents of its symbols and the
    numbers that dispatch looked at; the bucket and schedule that served and who chose them; where
    the kernel came from; bytes of its code; tasks for threads; seconds by the cost model and as
    measured; what its assembler says that makes it slower (CUDA)."""

    region: str
    source: str
    dims: dict[str, int]
    keys: dict[str, int]
    bucket: str
    schedule: str
    chosen: str
    kernel: str
    code_bytes: int
    tasks: int
    estimated_seconds: float
    measured_seconds: float
    warnings: tuple[str, ...]


class Explanation(NamedTuple):
    """Every decision behind one call: values of symbols, its launches, seconds of the whole call,
    bytes by kind, what became of padding, and which dims of inputs are equal in all calls that the
    same program serves ("total = past + sequence"; empty: it serves all). As text: all of it."""

    symbols: dict[str, int]
    launches: tuple[Launch, ...]
    call_seconds: float
    arena_bytes: int
    scratch_bytes: int
    output_bytes: int
    constant_bytes: int
    padding: str
    equal_dims: str
    text: str

    def __str__(self) -> str:
        return self.text


class Model(_anydim.CompiledModel):
    """A compiled model. Any number of threads may call it at once; calls release the GIL. Made by
    `anydim.compile`."""

    @property
    def inputs(self) -> list[TensorInfo]:
        """The inputs, in the model's order: a list of `TensorInfo`."""
        return [TensorInfo(*info) for info in self._inputs()]

    @property
    def outputs(self) -> list[TensorInfo]:
        """The results, in the model's order: a list of `TensorInfo`. A dim that only the run tells
        is an expression with a symbol of its own."""
        return [TensorInfo(*info) for info in self._outputs()]

    @property
    def symbols(self) -> dict[str, Symbol]:
        """Unknown extents by name: a dict of `Symbol`."""
        return {name: Symbol(*info) for name, info in self._symbols().items()}

    @property
    def padded_because(self) -> str:
        """Why rows that a mask hides are computed: the op, mask or result that stands in the way;
        empty where they are not."""
        return self._padded_because()

    @property
    def hidden_rows_kept_because(self) -> str:
        """Why hidden rows of results are as the model computes them though ``masked_rows="zero"``
        was asked for; empty where they are zeros, or were not asked for."""
        return self._hidden_rows_kept_because()

    def stats(self) -> Statistics:
        """Calls, kernels and memory up to now: `Statistics`."""
        all = self._stats()
        calls = all["calls"]
        calls["latency"] = Latency(**calls["latency"])
        return Statistics(Calls(**calls), Kernels(**all["kernels"]), Memory(**all["memory"]),
                          all["copied_inputs"])

    def memory_ceiling(self, shapes: Mapping[str, Sequence[int]]) -> MemoryCeiling:
        """What a call of these shapes may hold: `MemoryCeiling`. ``shapes`` has the extents of
        every input, by name."""
        return MemoryCeiling(
            **self._memory_ceiling({name: list(shape) for name, shape in shapes.items()}))

    def explain(self, shapes: Mapping[str, Sequence[int]], repeat: int = 5) -> Explanation:
        """What a call of these shapes does, and why: `Explanation`. It is made with made-up
        numbers, ``repeat`` times, once every kernel is there. ``shapes`` has the extents of every
        input, by name."""
        told = self._explain({name: list(shape) for name, shape in shapes.items()}, repeat)
        told["launches"] = tuple(Launch(**launch) for launch in told["launches"])
        return Explanation(**told)

    @contextlib.contextmanager
    def trace(self, file: str | os.PathLike[str], events: int = 65536) -> Iterator[None]:
        """``with model.trace("trace.json"):`` records calls of every thread, their launches and
        kernels that come to be, and writes them on leaving, also by an exception, for Perfetto
        (ui.perfetto.dev). The newest ``events`` are kept, of 128 bytes each; the file counts the
        others ("lost_events"). Raises WriteError where the file cannot be written."""
        path = os.fsdecode(file)
        self._start_timeline(events)
        try:
            yield
        finally:
            self._stop_timeline()
            self._write_timeline(path)

    async def run_async(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, *,
                        cache: _anydim.Cache | None = None, arrays: str = "numpy",
                        stream: Any = None) -> dict[str, Any]:
        """As `run`, awaited: the call runs on a thread of the event loop's executor. Where the task
        is cancelled the call ends between two launches."""
        import asyncio  # which takes longer to import than the rest
        import functools

        cancellation = _anydim.Cancellation()
        call = functools.partial(self.run, inputs, out, cache=cache, arrays=arrays, stream=stream,
                                 cancellation=cancellation)
        try:
            return await asyncio.get_running_loop().run_in_executor(None, call)
        except asyncio.CancelledError:
            cancellation.cancel()
            raise

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<anydim.Model, closed>"
        return f"<anydim.Model {', '.join(info.name for info in self.inputs)} -> {', '.join(info.name for info in self.outputs)}>"


def compile(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Any,
    *,
    device: str = "cpu",
    precision: str = "f32",
    masked_rows: str = "keep",
    dims: Mapping[str, Sequence[int]] | None = None,
    policies: str | Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    database: str | os.PathLike[str] | bool | None = None,
    memory_limit: int | str | None = None,
    cpu_level: str | None = None,
    f32_products: str | None = None,
    append_in_place: bool = False,
    folder: str | os.PathLike[str] | None = None,
    warn_level: int = 1,
) -> Model:
    """Loads a model and compiles it for every shape it can meet: a `Model`.

    model: path of an ONNX file or of a module in text form, or its bytes, or an onnx.ModelProto.
    device: "cpu" or "cuda". precision: what operands of matmul and attention are rounded to, "f32",
    "bf16" or (cuda) "f16"; sums are f32. masked_rows: rows of results that a mask hides: "keep" as
    the model computes them, or "zero", which allows them not to be computed. What cannot be had is
    a `PaddingWarning`. dims: ranges of symbols, {name: (low, high)} or {name: (low, high,
    multiple)}, narrower than the model has them. policies: what serves unknown shapes: "symbolic",
    "bucketed", "exact" or "library", or {region: one of these}. outputs: names of the results that
    are asked for; all where None. threads: that compute; as many as this process may run at once
    where None. cache_dir: folder of compiled kernels, $XDG_CACHE_HOME/anydim or ~/.cache/anydim
    where None; cache=False keeps none. database: tuning database; the user's own where None, none
    where False. memory_limit: most bytes of one call, as a number or like "512M". cpu_level:
    "x86-64", "avx2", "avx512", "avx512bf16" or "amx"; the best there is where None. f32_products:
    "exact", or (cuda) "tf32". append_in_place: results that are an input with something appended
    (a decoder's keys and values) can stay in a `Cache`, which `run` appends to. folder: where files
    that a model given as bytes names are looked for. warn_level: frames up whose line warnings
    name, as the stacklevel of warnings.warn.

    Raises a class of `anydim.errors` for each kind of error. Ctrl-C ends it.
    """
    options = option_words(
        device=device,
        precision=precision,
        masked_rows=masked_rows,
        dims=dims,
        policies=policies,
        outputs=outputs,
        threads=threads,
        cache_dir=cache_dir,
        cache=cache,
        database=database,
        memory_limit=memory_limit,
        cpu_level=cpu_level,
        f32_products=f32_products,
        append_in_place=append_in_place,
    )
    compiled = Model(source_of(model), None if folder is None else os.fspath(folder), options,
                     warn_level + 1)
    open_models.add(compiled)
    return compiled


def option_words(
    *,
    device: str = "cpu",
    precision: str = "f32",
    masked_rows: str = "keep",
    dims: Mapping[str, Sequence[int]] | None = None,
    policies: str | Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    database: str | os.PathLike[str] | bool | None = None,
    memory_limit: int | str | None = None,
    cpu_level: str | None = None,
    f32_products: str | None = None,
    append_in_place: bool = False,
) -> list[tuple[str, str]]:
    """Options of `compile` as the extension takes them."""
    words: list[tuple[str, Any]] = [("device", device), ("precision", precision),
                                    ("masked_rows", masked_rows)]
    for name, bounds in (dims or {}).items():
        words.append(("dim", f"{name}=" + ":".join(str(bound) for bound in bounds)))
    if isinstance(policies, str):
        words.append(("policy", policies))
    else:
        words += [("policy", f"{region}={policy}") for region, policy in (policies or {}).items()]
    if isinstance(outputs, str):
        raise OptionError(f"outputs are a list of names, e.g. [{outputs!r}], not a string")
    words += [("output", name) for name in outputs or []]
    if not cache:
        words.append(("cache_folder", "none"))
    elif cache_dir is not None:
        words.append(("cache_folder", path_word(cache_dir)))
    if database is False:
        words.append(("database", "none"))
    elif database is not None and database is not True:
        words.append(("database", path_word(database)))
    for name, value in (("threads", threads), ("memory_limit", memory_limit),
                        ("cpu_level", cpu_level), ("f32_products", f32_products)):
        if value is not None:
            words.append((name, str(value)))
    if append_in_place:
        words.append(("append_in_place", "on"))
    return [(name, word(name, value)) for name, value in words]


def path_word(path: str | os.PathLike[str]) -> str:
    """Which no path's name makes a word of another meaning."""
    return os.path.join(os.curdir, os.fspath(path))


def word(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise OptionError(f"option '{name}' is given as a string, not as a {type(value).__name__}")


def source_of(model: Any) -> str | bytes:
    """A path as str, or bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    try:
        return os.fsdecode(model)
    except TypeError:
        raise OptionError(
            f"a model is a path, bytes or an onnx.ModelProto, not a {type(model).__name__}"
        ) from None


# Their threads end before the interpreter does.
open_models: weakref.WeakSet[Model] = weakref.WeakSet()


@atexit.register
def close_models() -> None:
    _anydim.end_calls()
    for model in list(open_models):
        model.close()
