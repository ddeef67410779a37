"""anydim.tune: sizes in every way they are told, progress, an interruption, and what is refused."""

import os
import signal
import threading

import numpy as np
import pytest

import anydim

DENSE = """fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {
  %w = constant(f32 (48, 32) @random(1))
  %p = matmul(%x, %w)
  %y = relu(%p)
  return %y
}
""".encode()


@pytest.fixture
def tune(tmp_path):
    def tune(**options):
        return anydim.tune(
            DENSE, **{
                "database": tmp_path / "t.db", "threads": 1, "cache": False, "trials": 3,
                "points": 2, "budget": 60, **options})

    return tune


def test_a_run_its_progress_and_what_compile_makes_of_it(tune, tmp_path):
    seen = []
    result = tune(lengths=[4, 7, 60, 60], progress=seen.append, report=tmp_path / "report.html",
                  log=tmp_path / "log")
    assert result.trials >= 3 and result.failures == {} and not result.nothing_to_do
    assert result.lower_bound_seconds <= result.expected_seconds * 1.001
    assert result.database == str(tmp_path / "t.db") and "candidates tried" in str(result)
    assert len(seen) >= 3 and all(
        one.region == "matmul_0" and one.space > 3 and one.best_seconds > 0 for one in seen)
    assert [one.trials for one in seen] == sorted(one.trials for one in seen)
    assert "<html" in (tmp_path / "report.html").read_text()
    again = tune(lengths=[4, 7, 60, 60])
    assert again.nothing_to_do and again.trials == 0
    model = anydim.compile(DENSE, database=tmp_path / "t.db", threads=1, cache=False)
    assert {launch.chosen
            for launch in model.explain({"x": (60, 48)}).launches} == {"tuned, measured"}


@pytest.mark.parametrize(
    "sizes", [{"distribution": "uniform(4, 60)"}, {"shapes": [{"x": (4, 48)}, {"x":
        (60, 48)}]}, {"calls": [{"x": np.ones((n, 48), "float32")} for n in (4, 60)]}])
def test_sizes_are_told_in_many_ways(tune, sizes):
    assert tune(trials=1, **sizes).trials >= 1


def test_calls_and_lengths_from_files(tune, tmp_path):
    x = np.ones((9, 48), "float32")
    assert anydim.record_call(tmp_path / "calls", {"x": x}) and anydim.record_call(
        tmp_path / "calls", {"x": x})
    assert len(list((tmp_path / "calls").iterdir())) == 1
    assert tune(trials=1, calls=tmp_path / "calls").trials >= 1
    (tmp_path / "lengths").write_text("4\n60\n")
    assert tune(trials=1, lengths=tmp_path / "lengths").trials >= 1


def test_ctrl_c_ends_it_and_keeps_what_was_measured(tune):
    def interrupt(progress):
        if progress.trials == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tune(lengths=[4, 60], trials=None, budget="10m", progress=interrupt)
    assert tune(lengths=[4, 60]).reused >= 2


def test_what_progress_raises_ends_it(tune):
    def fail(progress):
        raise ZeroDivisionError("of the caller's")

    with pytest.raises(ZeroDivisionError, match="of the caller's"):
        tune(lengths=[4, 60], trials=None, budget="10m", progress=fail)
    assert threading.active_count() == 1
    assert tune(lengths=[4, 60]).trials >= 1


@pytest.mark.parametrize(
    "error, message, options",
    [
        (anydim.OptionError,
         "tuning needs one of lengths, distribution, shapes, trace and calls: the sizes to tune for",
         {}),
        (anydim.OptionError, "tuning needs one of lengths", {
            "lengths": [3], "distribution": "constant(3)"}),
        (anydim.OptionError, "recorded calls go alone or with a trace", {
            "lengths": [3], "calls": [{"x": np.ones((4, 48), "float32")}]}),
        (anydim.OptionError, "lengths are empty", {"lengths": []}),
        (anydim.OptionError, "lengths: expected lengths of at least 1, got 0", {"lengths": [0, 3]}),
        (anydim.OptionError, "lengths are whole numbers, not a float", {"lengths": [3.5]}),
        (anydim.OptionError, "shapes are empty", {"shapes": []}),
        (anydim.InputError, "y", {"shapes": [{"y": (4, 48)}]}),
        (anydim.InputError, "the model takes n in", {"shapes": [{"x": (99, 48)}]}),
        (anydim.InputError, "the model takes n in", {"lengths": [99]}),
        (anydim.InputError, "an array of Python objects", {"calls": [{"x": np.array([None])}]}),
        (anydim.MalformedError, "there is no such file", {"lengths": "none.txt"}),
        (anydim.MalformedError, "there is no recorded call in this folder", {"calls": "none"}),
        (anydim.OptionError, "'budget' cannot be '0s'", {"lengths": [3], "budget": 0}),
        (anydim.OptionError, "'points' cannot be '99': it takes a number from 1 to 64", {
            "lengths": [3], "points": 99}),
        (anydim.OptionError, "'order' cannot be 'random'", {"lengths": [3], "order": "random"}),
        (anydim.OptionError, "database is a file", {"lengths": [3], "database": False}),
        (TypeError, "threds", {"lengths": [3], "threds": 2}), ],
)
def test_bad_input(tune, tmp_path, error, message, options):
    with pytest.raises(error, match=message):
        tune(**options)
    assert not list(tmp_path.glob("*.db*")) or error is anydim.InputError


def test_a_measuring_process_that_cannot_be_started(tune, monkeypatch):
    import multiprocessing.spawn

    monkeypatch.setattr(multiprocessing.spawn, "get_executable", lambda: "/none/python")
    with pytest.raises(
            anydim.ResourceError,
            match="the measuring process /none/python cannot be started: No such file or directory"
    ):
        tune(lengths=[4])
