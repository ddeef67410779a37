"""Tuning: anydim.tune and what it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _anydim
from ._model import option_words, path_word, source_of
from .errors import OptionError


class TuneProgress(NamedTuple):
    """How far a tuning run is: the region and schedule at work; candidates tried, of so many;
    seconds of a call with the best kernels so far, with those of the cost model, and that
    arithmetic and memory allow (0 where not known); seconds left of the budget."""

    region: str
    candidate: str
    trials: int
    space: int
    best_seconds: float
    default_seconds: float
    roofline_seconds: float
    seconds_left: float


class TuningResult(NamedTuple):
    """What a run found: the database's file; whether a finished run of the same kind was there
    already; candidates tried now, known from before, of so many; candidates that failed, by how;
    kernels that the tables name; expected seconds of a call by the cost model alone, as tuned, and
    at least with so many kernels. As text: what the command prints."""

    database: str
    nothing_to_do: bool
    trials: int
    reused: int
    space: int
    failures: dict[str, int]
    kernels: int
    default_seconds: float
    expected_seconds: float
    lower_bound_seconds: float
    text: str

    def __str__(self) -> str:
        return self.text


def tune(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Any,
    *,
    lengths: str | os.PathLike[str] | Iterable[int] | None = None,
    distribution: str | None = None,
    shapes: Iterable[Mapping[str, Sequence[int]]] | None = None,
    trace: str | os.PathLike[str] | None = None,
    calls: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
    batch: int | None = None,
    batch_tokens: int | None = None,
    order: str = "arrival",
    budget: float | str = "10m",
    trials: int | None = None,
    max_kernels: int | None = None,
    points: int | None = None,
    exhaustive: bool = False,
    database: str | os.PathLike[str] | None = None,
    progress: Callable[[TuneProgress], object] | None = None,
    log: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    warn_level: int = 1,
    **options: Any,
) -> TuningResult:
    """Measures which kernels serve a model best at the sizes that it will meet, and keeps what it
    found in a database, by which later `compile`s choose: a `TuningResult`.

    model: as `compile` takes it. The sizes, in one of these ways: lengths: of texts in tokens, or a
    file with one a line. distribution: that lengths are drawn from, "lognormal(3.4, 0.8, 1, 512)",
    "normal(60, 20, 1, 512)", "uniform(1, 512)" or "constant(128)". shapes: of whole calls, each
    {input: extents} of every input. trace: a file of sizes that a service recorded (`anydim run
    --record`, or the C interface). calls: inputs of whole calls, {input: array}, or a folder of
    them (`record_call`), to measure on their values; also beside `trace`. batch, batch_tokens:
    texts, and padded tokens, of a batch; one text where both are None. order: of texts in batches,
    "arrival" or "sorted". budget: seconds to measure in all, or a text such as "90s", "10m", "2h";
    at most `trials` candidates are tried. max_kernels: that the tables of all regions name
    together. points: representative calls to measure at. exhaustive: every schedule there is.
    database: a file; the user's own where None. progress: called with a `TuneProgress` at each
    candidate, on another thread; what it raises ends the run. log: file for what measuring
    processes write to standard error. report: file for what was found, as one HTML page. folder,
    warn_level: as of `compile`. options: what the model will be compiled with: device, precision,
    masked_rows, dims, policies, outputs, threads, cache_dir, cache, memory_limit, cpu_level,
    f32_products.

    Candidates run in a process of their own, another of this interpreter
    (multiprocessing.set_executable names a different one), so that one that crashes or hangs ends
    nothing here. Every measurement is kept as it comes: a run that was ended, by Ctrl-C too, goes
    on where it was when it is begun again. Raises a class of `anydim.errors` for each kind of
    error.
    """
    settings: list[tuple[str,
                         str]] = [("order", order),
                                  ("budget", budget if isinstance(budget, str) else f"{budget}s")]
    counts: list[int] = []
    if isinstance(lengths, (str, os.PathLike)):
        settings.append(("lengths", path_word(lengths)))
    elif lengths is not None:
        counts = [whole("lengths", length) for length in lengths]
        if not counts:
            raise OptionError("lengths are empty: expected those of the texts that will come")
    if distribution is not None:
        settings.append(("distribution", distribution))
    given = [] if shapes is None else [{
        name: [whole("shapes", extent)
               for extent in extents]
        for name, extents in call.items()}
                                       for call in shapes]
    if shapes is not None and not given:
        raise OptionError("shapes are empty: expected those of calls that will come")
    for name, file in (("trace", trace), ("log", log), ("report", report)):
        if file is not None:
            settings.append((name, path_word(file)))
    for name, count in (("batch", batch), ("batch_tokens", batch_tokens), ("trials", trials),
                        ("max_kernels", max_kernels), ("points", points)):
        if count is not None:
            settings.append((name, str(count)))
    if exhaustive:
        settings.append(("exhaustive", "on"))
    if database is False:
        raise OptionError(
            "tuning keeps what it measures: database is a file, or None for the user's own")
    watch = None if progress is None else lambda told: progress(TuneProgress(**told))
    import tempfile  # which takes longer to import than the rest

    with tempfile.TemporaryDirectory(prefix="anydim-calls-") as kept:
        if calls is not None:
            if not isinstance(calls, (str, os.PathLike)):
                keep_calls(kept, calls)
                calls = kept
            settings.append(("calls", path_word(calls)))
        words = option_words(database=database, **options)
        folder_name = None if folder is None else os.fspath(folder)
        return TuningResult(**_anydim.tune(source_of(model), folder_name, words, settings, counts,
                                           given, worker_command(), watch, warn_level + 1))


def record_call(folder: str | os.PathLike[str], inputs: Mapping[str, Any]) -> bool:
    """Keeps a call's inputs, arrays by name, in a folder that is made where absent, for
    `tune(calls=folder)`: equal calls once. False where the folder holds 256 others, which is the
    most. Raises WriteError, and InputError for what is no array."""
    return _anydim.record_call(os.fspath(folder), inputs)


def keep_calls(folder: str, calls: Iterable[Mapping[str, Any]]) -> None:
    for call in calls:
        if not record_call(folder, call):
            raise OptionError(
                "there are more than 256 calls: give some that stand for all, and a trace for how often sizes are met"
            )


def whole(name: str, value: Any) -> int:
    try:
        return value.__index__()
    except AttributeError:
        raise OptionError(f"{name} are whole numbers, not a {type(value).__name__}") from None


def worker_command() -> list[str]:
    from multiprocessing.spawn import get_executable

    package = os.path.dirname(os.path.dirname(os.path.abspath(_anydim.__file__)))
    program = "import sys; sys.path.insert(0, sys.argv[1]); from anydim._anydim import serve_tuning; serve_tuning()"
    return [os.fsdecode(get_executable()), "-I", "-c", program, package]
