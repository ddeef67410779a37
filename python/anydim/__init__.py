"""Anydim compiles a tensor program once, for every shape it will meet, and runs it.

    import anydim, numpy
    model = anydim.compile("model.onnx")
    result = model.run({"x": numpy.zeros((2, 7, 8), "float32")})
"""

from . import errors
from ._anydim import Cache, Cancellation, DeviceArray, __version__
from ._model import (Calls, Explanation, Kernels, Latency, Launch, Memory, MemoryCeiling, Model,
                     Statistics, Symbol, TensorInfo, compile)
from ._tuning import TuneProgress, TuningResult, record_call, tune
from .errors import (
    AnydimWarning,
    CancelledError,
    ClosedError,
    Error,
    ForkedError,
    InputError,
    InternalError,
    MalformedError,
    OptionError,
    PaddingWarning,
    ResourceError,
    UnsupportedError,
    WriteError,
)
from .onnxruntime import InferenceSession

__all__ = [
    name for name in dir() if not name.startswith("_") and name not in ("errors", "onnxruntime")
] + ["__version__", "errors"]
