"""Programs over onnxruntime's sessions, run with it and with Anydim by changing the import."""

import importlib
import pathlib
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anydim
import anydim.onnxruntime as ours
from models import DENSE, address

MODELS = pathlib.Path(__file__).parents[1] / "models"
LIBRARIES = ["onnxruntime", "anydim.onnxruntime"]


def exported(dtype=TensorProto.FLOAT, dims=("n", 8)):
    """relu(x) and relu(x) * 2, as an exporter writes them."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "a"], ["b"])]
    results = [helper.make_tensor_value_info(name, dtype, dims) for name in "ab"]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", dtype, dims)],
                              results, doc_string="of a graph")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                              producer_name="tests", doc_string="of a model")
    model.ir_version, model.model_version, model.domain = 9, 3, "example.org"
    helper.set_model_props(model, {"stride": "32", "names": "{0: 'one'}"})
    return model.SerializeToString()


@pytest.fixture(params=LIBRARIES)
def ort(request):
    return importlib.import_module(request.param)


def test_the_usual_program(ort):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    assert "CPUExecutionProvider" in ort.get_available_providers()
    session = ort.InferenceSession(str(MODELS / "tiny_bert.onnx"), options,
                                   providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    feeds = {
        arg.name: np.ones([2 if isinstance(dim, str) else dim for dim in arg.shape], "int64")
        for arg in session.get_inputs()}
    everything = session.run(None, feeds)
    names = [arg.name for arg in session.get_outputs()]
    assert isinstance(everything, list) and len(everything) == len(names)
    (last,) = session.run([names[-1]], feeds)
    assert (last == everything[-1]).all()
    assert session.get_overridable_initializers() == []


@pytest.mark.parametrize("file", ["tiny_bert.onnx", "gray_to_rgb.onnx", "rnn_loop.onnx"])
def test_results_are_onnx_runtimes(file):
    theirs, mine = [
        importlib.import_module(name).InferenceSession(str(MODELS / file)) for name in LIBRARIES]
    with np.load(MODELS / file.replace(".onnx", ".npz")) as recorded:
        for case in range(3):
            feeds = {arg.name: recorded[f"{case}.in.{arg.name}"] for arg in theirs.get_inputs()}
            for expected, got in zip(theirs.run(None, feeds), mine.run(None, feeds), strict=True):
                assert got.dtype == expected.dtype and got.shape == expected.shape
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_what_sessions_say_of_themselves():
    theirs, mine = [
        importlib.import_module(name).InferenceSession(exported()) for name in LIBRARIES]
    for get in ("get_inputs", "get_outputs"):
        described = [[(arg.name, list(arg.shape), arg.type)
                      for arg in getattr(session, get)()]
                     for session in (theirs, mine)]
        assert described[0] == described[1]
    expected, got = theirs.get_modelmeta(), mine.get_modelmeta()
    for name in ours.ModelMetadata._fields:
        assert getattr(got, name) == getattr(expected, name), name


@pytest.mark.parametrize("dtype",
                         ["float", "double", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_names_of_types(dtype):
    number = {"bool": TensorProto.BOOL}.get(dtype) or getattr(TensorProto, dtype.upper())
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", number, ["n", None, 2])],
                              [helper.make_tensor_value_info("y", number, ["n", None, 2])])
    session = ours.InferenceSession(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                          ir_version=9).SerializeToString())
    (arg,) = session.get_inputs()
    assert arg.type == f"tensor({dtype})" and arg.shape[0] == "n" and not isinstance(
        arg.shape[1], int) and arg.shape[2] == 2
    assert session.get_outputs()[0].type == f"tensor({dtype})"


def test_metadata_of_a_file(tmp_path):
    (tmp_path / "m.onnx").write_bytes(exported())
    meta = ours.InferenceSession(tmp_path / "m.onnx").get_modelmeta()
    assert meta.producer_name == "tests" and meta.version == 3 and meta.custom_metadata_map == {
        "stride": "32", "names": "{0: 'one'}"}
    (tmp_path / "m.anydim").write_text(DENSE)
    assert ours.InferenceSession(tmp_path / "m.anydim").get_modelmeta().custom_metadata_map == {}


def test_random_numbers_are_others_in_each_run(ort):
    dims = ["n", 4]
    graph = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["noise"])], "noise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("noise", TensorProto.FLOAT, dims)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString())
    assert [arg.name for arg in session.get_inputs()] == ["x"]
    feeds = {"x": np.zeros((500, 4), "float32")}
    (one,), (other,) = session.run(None, feeds), session.run(None, feeds)
    assert one.shape == (500, 4) and (one != other).all()
    assert abs(one.mean()) < 0.1 and abs(one.std() - 1) < 0.1


def test_bound_arrays(ort):
    session = ort.InferenceSession(exported())
    x, a = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8), np.zeros((3, 8), "float32")
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("a", "cpu", 0, np.float32, a.shape, address(a))
    binding.bind_output("b")
    for offset in (0, 1):
        x += offset
        session.run_with_iobinding(binding)
        assert (a == np.maximum(x, 0)).all()
        first, second = binding.copy_outputs_to_cpu()
        assert (first == a).all() and (second == 2 * a).all()
        values = binding.get_outputs()
        assert values[0].shape() == [
            3, 8
        ] and values[0].data_ptr() == address(a) and values[1].data_type() == "tensor(float)"
    value = ort.OrtValue.ortvalue_from_numpy(x)
    binding.clear_binding_inputs()
    binding.bind_ortvalue_input("x", value)
    place = ort.OrtValue.ortvalue_from_shape_and_type([3, 8], np.float32)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output("b", place)
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    assert (place.numpy() == 2 * np.maximum(x, 0)).all()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, address(x))
    session.run_with_iobinding(binding)
    (result,) = session.run_with_ort_values(["a"], {"x": value})
    assert (result.numpy() == np.maximum(x, 0)).all()


def test_bound_arrays_are_not_copied():
    """What is written at the addresses that were bound, and nowhere else."""
    session = ours.InferenceSession(exported())
    x, a = np.ones((1000, 8), "float32"), np.zeros((1000, 8), "float32")
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("a", "cpu", 0, np.float32, a.shape, address(a))
    session.run_with_iobinding(binding)
    assert address(binding.get_outputs()[0].numpy()) == address(a) and (a == 1).all()


def test_bad_calls_are_value_errors(ort):
    session = ort.InferenceSession(exported())
    x = np.ones((2, 8), "float32")
    with pytest.raises(ValueError):
        session.run(None, {})
    for names, feeds in ((["q"], {"x": x}), (None, {"x": x, "y": x}),
                         (None, {"x": x.astype("float64")}), (None, {"x": x[:, :7]})):
        with pytest.raises((ValueError, Exception)) as raised:
            session.run(names, feeds)
        if ort is ours:
            assert isinstance(raised.value, anydim.InputError)


def test_options_of_anydims_own(tmp_path):
    session = ours.InferenceSession(exported(), cache_dir=tmp_path / "kernels", precision="bf16",
                                    outputs=["b"])
    assert [arg.name for arg in session.get_outputs()] == ["b"] and (tmp_path / "kernels").exists()
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    with pytest.raises(anydim.InputError):
        ours.InferenceSession(exported(), options).run(None, {"x": np.ones((3, 8), "float32")})
    with pytest.warns(anydim.PaddingWarning) as told:
        ours.InferenceSession(exported(), masked_rows="zero")
    assert told[0].filename == __file__


def test_what_cannot_be_had_is_told():
    with pytest.warns(anydim.AnydimWarning,
                      match="Anydim has no OpenVINOExecutionProvider") as told:
        session = ours.InferenceSession(
            exported(), providers=[("OpenVINOExecutionProvider", {}), "CPUExecutionProvider"])
    assert told[0].filename == __file__ and session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(anydim.OptionError,
                       match="none of the providers"), pytest.warns(anydim.AnydimWarning):
        ours.InferenceSession(exported(), providers=["OpenVINOExecutionProvider"])
    options = ours.SessionOptions()
    options.enable_profiling = True
    with pytest.warns(anydim.AnydimWarning, match="writes no profile"):
        ours.InferenceSession(exported(), options)
    with pytest.raises(anydim.InputError, match="memory of the device 'cuda'"):
        ours.InferenceSession(exported()).io_binding().bind_output("a", "cuda")


@pytest.mark.skipif(len(ours.get_available_providers()) > 1, reason="this machine has a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.warns(anydim.AnydimWarning,
                      match="cuda was asked for first, and cpu runs the model"):
        session = ours.InferenceSession(exported(),
                                        providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(anydim.ResourceError):
        ours.InferenceSession(exported(), providers=["CUDAExecutionProvider"])


def test_a_call_that_is_terminated(ort):
    session = ort.InferenceSession(exported())
    options = ort.RunOptions()
    options.terminate = True
    x = np.ones((2, 8), "float32")
    with pytest.raises(Exception):
        session.run(None, {"x": x}, options)
    options.terminate = False
    assert (session.run(["a"], {"x": x}, options)[0] == 1).all()


def test_one_session_and_many_threads():
    session = ours.InferenceSession(exported())
    results = {}

    def work(i):
        results[i] = session.run(["a"], {"x": np.full((i + 1, 8), i, "float32")})[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((results[i] == i).all() and len(results[i]) == i + 1 for i in range(16))


def test_models_of_the_onnx_package():
    session = anydim.InferenceSession(onnx.load_from_string(exported()))
    assert session.get_modelmeta().graph_name == "small"
