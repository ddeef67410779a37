"""Names of onnxruntime's Python interface over Anydim, for programs that run a session:

    import anydim.onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    results = session.run(None, {"x": array})
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _anydim, _model
from ._onnx_metadata import read_metadata
from .errors import AnydimWarning, InputError, OptionError, ResourceError, UnsupportedError

TYPES = {"float32": "float", "float64": "double"}  # where ONNX Runtime's names are not NumPy's
DEVICES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}


class GraphOptimizationLevel(enum.IntEnum):
    """Taken and not looked at: Anydim always optimises."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Taken and not looked at: Anydim runs one kernel after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class NodeArg(NamedTuple):
    """An input or result of a session: a dim is a number, the name of a symbol, or None where it is
    neither; a type is "tensor(float)", "tensor(int64)", .."""

    name: str
    shape: list[int | str | None]
    type: str


class ModelMetadata(NamedTuple):
    """What an ONNX file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class SessionOptions:
    """Of these `intra_op_num_threads` (0: as many as the process may run) and free dimension
    overrides have a meaning for Anydim; the others are taken and not looked at, but for those that
    ask for a result of their own (profiles, optimised models), which are warned of."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = 0
        self.enable_cpu_mem_arena = self.enable_mem_pattern = self.enable_mem_reuse = True
        self.enable_profiling = self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.log_severity_level = self.log_verbosity_level = 0
        self.logid = ""
        self.entries: dict[str, str] = {}
        self.dims: dict[str, tuple[int, int]] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self.entries:
            raise OptionError(f"the session's options have no entry '{key}'")
        return self.entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """The symbol is this number in every call."""
        self.dims[name] = (value, value)

    def register_custom_ops_library(self, path: str) -> None:
        raise UnsupportedError(f"{path}: Anydim runs no operators of others' libraries")


class RunOptions:
    """`terminate = True`, set by another thread, ends the calls that were given it."""

    def __init__(self) -> None:
        self.log_severity_level = self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.entries: dict[str, str] = {}
        self.terminated = False
        self.cancellation = _anydim.Cancellation()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value

    @property
    def terminate(self) -> bool:
        return self.terminated

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self.terminated = bool(value)
        if self.terminated:
            self.cancellation.cancel()
        else:
            self.cancellation = _anydim.Cancellation()


class OrtValue:
    """A NumPy array as a value of a session; its memory is the array's."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        require_host(device_type, "the value")
        return OrtValue(array)

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any,
                                     device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        import numpy

        require_host(device_type, "the value")
        return OrtValue(numpy.empty(shape, element_type))

    def numpy(self) -> Any:
        return self.array

    def shape(self) -> list[int]:
        return list(self.array.shape)

    def data_type(self) -> str:
        return type_text(self.array.dtype.name)

    def data_ptr(self) -> int:
        return int(self.array.__array_interface__["data"][0])

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def tensor_size_in_bytes(self) -> int:
        return int(self.array.nbytes)

    def update_inplace(self, array: Any) -> None:
        self.array[...] = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.array.__dlpack_device__()
        return int(kind), int(number)


class IOBinding:
    """Arrays that a session reads and writes where they lie, bound once for any number of calls."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self.inputs: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        self.outputs: list[str] = []
        self.results: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        self.inputs[name] = array

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any,
                   shape: Sequence[int], buffer_ptr: int) -> None:
        """Reads memory at an address, which must stay valid until the last call."""
        require_host(device_type, f"input '{name}'")
        self.inputs[name] = array_at(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self.inputs[name] = value.numpy()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Writes to memory at an address; where none is given the result is Anydim's to place."""
        require_host(device_type, f"result '{name}'")
        self.note_output(name,
                         None if buffer_ptr is None else array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self.note_output(name, value.numpy())

    def note_output(self, name: str, place: Any) -> None:
        self.session.require_output(name)
        if name not in self.outputs:
            self.outputs.append(name)
        self.places.pop(name, None)
        if place is not None:
            self.places[name] = place

    def clear_binding_inputs(self) -> None:
        self.inputs = {}

    def clear_binding_outputs(self) -> None:
        self.places, self.outputs, self.results = {}, [], {}

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: inputs lie in this process's memory."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: results are there when the call ends."""

    def get_outputs(self) -> list[OrtValue]:
        """Results of the last call in the order in which they were bound: a list of `OrtValue`."""
        return [OrtValue(self.results[name]) for name in self.outputs if name in self.results]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The same as NumPy arrays, where they lie: they are on the CPU."""
        return [value.numpy() for value in self.get_outputs()]


class InferenceSession:
    """A compiled model that is called as onnxruntime's sessions are.

    path_or_bytes: an ONNX file or its bytes. sess_options: `SessionOptions`. providers: names, or
    (name, options), the most wanted first: CUDAExecutionProvider and CPUExecutionProvider; others
    are warned of, and so is a GPU that is not there where the CPU was named too. options: as
    `anydim.compile` takes them, e.g. masked_rows="zero".

    Errors are Anydim's own (`anydim.errors`); those of inputs are ValueErrors, as onnxruntime's
    are. A model that compiles is run for every shape.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        warn_level: int = 1,
        **options: Any,
    ) -> None:
        self.session_options = sess_options if sess_options is not None else SessionOptions()
        source = _model.source_of(path_or_bytes)
        wanted = options_of(self.session_options, options, warn_level + 1)
        devices = devices_of(providers, warn_level + 1)
        for i, device in enumerate(devices):
            try:
                self.model = _model.compile(source, device=device, warn_level=warn_level + 1,
                                            **wanted)
                break
            except ResourceError as error:
                if i + 1 == len(devices):
                    raise
                warnings.warn(
                    f"{device} was asked for first, and {devices[i + 1]} runs the model: {error}",
                    AnydimWarning, stacklevel=warn_level + 1)
        self.device = device
        # A file is read when it is asked for.
        self.path: str | None = None if isinstance(source, bytes) else source
        self.metadata: dict[str, Any] | None = read_metadata(source) if isinstance(source,
                                                                                   bytes) else None
        self.output_names = [info.name for info in self.model.outputs]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """Results in the order of ``output_names`` (None or []: all): a list of NumPy arrays."""
        results = self.model.run(
            input_feed, cancellation=None if run_options is None else run_options.cancellation)
        if not output_names:
            return list(results.values())
        try:
            return [results[name] for name in output_names]
        except KeyError as missing:
            self.require_output(missing.args[0])
            raise

    def run_with_ort_values(self, output_names: Sequence[str] | None,
                            input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """As `run`, with `OrtValue` in place of arrays."""
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(array) for array in self.run(output_names, feed, run_options)]

    def io_binding(self) -> IOBinding:
        """An empty `IOBinding` for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding,
                           run_options: RunOptions | None = None) -> None:
        """Reads bound inputs where they lie and writes results to bound places; nothing is
        copied."""
        cancellation = None if run_options is None else run_options.cancellation
        iobinding.results = self.model.run(iobinding.inputs, iobinding.places or None,
                                           cancellation=cancellation)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order. A seed of random numbers, which a run may leave out, is
        none of them."""
        return [node_arg(info) for info in self.model.inputs if info.name != "anydim.random_seed"]

    def get_outputs(self) -> list[NodeArg]:
        """The results, in the model's order."""
        return [node_arg(info) for info in self.model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: an input with a default value is a constant of the model."""
        return []

    def get_providers(self) -> list[str]:
        """Names of the devices that run the model."""
        return [name for name, device in DEVICES.items() if device in (self.device, "cpu")][::-1]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None of Anydim's options is a provider's: an empty dict for each."""
        return {name: {} for name in self.get_providers()}

    def get_session_options(self) -> SessionOptions:
        """`SessionOptions` as they were given."""
        return self.session_options

    def get_modelmeta(self) -> ModelMetadata:
        """`ModelMetadata`."""
        if self.metadata is None:
            assert self.path is not None
            self.metadata = read_metadata(self.path)
        return ModelMetadata(**self.metadata)

    def disable_fallback(self) -> None:
        """Anydim falls back to nothing by itself."""

    enable_fallback = disable_fallback

    def require_output(self, name: str) -> None:
        """Raises InputError where the model has no such result."""
        if name not in self.output_names:
            raise InputError(
                f"the model has no result '{name}'; its results are {', '.join(self.output_names)}")


def node_arg(info: _model.TensorInfo) -> NodeArg:
    return NodeArg(info.name, [
        dim if isinstance(dim, int) or dim.isidentifier() else None for dim in info.shape],
                   type_text(info.dtype))


def type_text(dtype: str) -> str:
    return f"tensor({TYPES.get(dtype, dtype)})"


def options_of(session_options: SessionOptions, options: Mapping[str, Any],
               warn_level: int) -> dict[str, Any]:
    wanted = dict(options)
    if session_options.intra_op_num_threads:
        wanted.setdefault("threads", session_options.intra_op_num_threads)
    if session_options.dims:
        wanted["dims"] = {**session_options.dims, **(wanted.get("dims") or {})}
    if session_options.enable_profiling:
        warnings.warn("a session of Anydim's writes no profile; see Model.explain and Model.stats",
                      AnydimWarning, stacklevel=warn_level + 1)
    if session_options.optimized_model_filepath:
        warnings.warn("a session of Anydim's writes no optimised model", AnydimWarning,
                      stacklevel=warn_level + 1)
    return wanted


def devices_of(providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None,
               warn_level: int) -> list[str]:
    """Devices of the providers, the most wanted first."""
    devices = []
    for provider in providers if providers is not None else ["CPUExecutionProvider"]:
        name = provider if isinstance(provider, str) else provider[0]
        if name in DEVICES:
            devices.append(DEVICES[name])
        else:
            warnings.warn(f"Anydim has no {name}; it has {', '.join(DEVICES)}", AnydimWarning,
                          stacklevel=warn_level + 1)
    if not devices:
        raise OptionError(
            f"none of the providers that were named is Anydim's; name one of {', '.join(DEVICES)}")
    return list(dict.fromkeys(devices))


def require_host(device_type: str, what: str) -> None:
    if device_type not in ("cpu", "cuda_pinned"):
        raise InputError(
            f"{what} is bound to memory of the device '{device_type}': expected this process's memory, 'cpu'"
        )


def array_at(address: int | None, element_type: Any, shape: Sequence[int] | None) -> Any:
    import ctypes

    import numpy

    if address is None or element_type is None or shape is None:
        raise InputError("memory at an address is bound with its element type and shape")
    dtype = numpy.dtype(element_type)
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    if count == 0:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer((ctypes.c_byte * count).from_address(address), dtype).reshape(shape)


def get_available_providers() -> list[str]:
    """Of this machine, the most wanted first."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]
    except OSError:
        return ["CPUExecutionProvider"]


def get_device() -> str:
    return "GPU" if len(get_available_providers()) > 1 else "CPU"


def set_default_logger_severity(level: int) -> None:
    """Taken and not looked at: what Anydim has to say are Python's warnings."""


set_default_logger_verbosity = set_default_logger_severity
