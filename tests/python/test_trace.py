"""model.trace: a file that Perfetto opens."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anydim
from models import dense_inputs


def events(path, category):
    return [
        event for event in json.loads(path.read_text())["traceEvents"]
        if event.get("cat") == category]


def test_calls_of_all_threads_are_traced(encoder, tmp_path):
    ids, mask = np.ones((2, 5), "int64"), np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    with encoder.trace(tmp_path / "trace.json"), ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: encoder.run({"ids": ids, "mask": mask}), range(30)))
    calls = events(tmp_path / "trace.json", "call")
    assert len(calls) == 30
    assert {call["args"]["rows_left_out"] for call in calls} == {3}
    launches = events(tmp_path / "trace.json", "launch")
    assert launches and {launch["tid"] for launch in launches} == {call["tid"] for call in calls}
    encoder.run({"ids": ids, "mask": mask})
    assert len(events(tmp_path / "trace.json", "call")) == 30


def test_a_trace_is_written_where_a_call_failed_and_counts_what_it_lost(dense, random, tmp_path):
    with pytest.raises(anydim.errors.InputError), dense.trace(tmp_path / "trace.json", events=4):
        for _ in range(5):
            dense.run(dense_inputs(random, 2, 3))
        dense.run({
            "x": np.zeros((1, 1, 8), "f4"), "w": np.zeros((7, 4), "f4"), "b": np.zeros(4, "f4")})
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"]["events"] == 4 and trace["otherData"]["lost_events"] > 0
    assert trace["traceEvents"][-1]["args"]["failed"]


def test_what_cannot_be_traced_is_refused(dense, random, tmp_path):
    with pytest.raises(anydim.errors.WriteError,
                       match="no/trace.json: cannot be written"), dense.trace(tmp_path /
                                                                              "no/trace.json"):
        dense.run(dense_inputs(random, 1, 1))
    for wrong in (0, -1, 1 << 25):
        with pytest.raises(anydim.errors.OptionError,
                           match=f"a timeline of {wrong} events"), dense.trace(
                               tmp_path / "trace.json", wrong):
            pass
    assert not list(tmp_path.iterdir())
