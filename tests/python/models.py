"""Small models as text, and arrays that libraries other than NumPy would hand over."""

import os

import numpy as np

# Times and memory say nothing of the package then.
SANITIZED = bool(os.environ.get("ANYDIM_SANITIZE"))

DENSE = """
fn @main(%x: Tensor[(batch, seq, 8), f32], %w: Tensor[(8, 4), f32], %b: Tensor[(4), f32])
  where batch in [0, 64], seq in [0, 64] {
  %y = matmul(%x, %w)
  %z = add(%y, %b)
  %r = relu(%z)
  return %r
}
"""

# One layer; rows, their mean. Rows that the mask hides are not computed.
ENCODER = """
fn @main(%ids: Tensor[(b, s), i64], %mask: Tensor[(b, s), i64]) where b in [0, 16], s in [0, 64] {
  %table = constant(f32 (50, 16) @random(1))
  %x = gather(%table, %ids) {axis = 0}
  %gain = constant(f32 (16) @random(2))
  %n = layer_norm(%x, %gain) {axis = -1}
  %wq = constant(f32 (16, 16) @random(3))
  %wk = constant(f32 (16, 16) @random(4))
  %q = matmul(%n, %wq)
  %k = matmul(%n, %wk)
  %m3 = expand_dims(%mask) {axes = (1)}
  %real = cast(%m3) {to = f32}
  %one = constant(f32 () [1])
  %off = sub(%one, %real)
  %low = constant(f32 () [-inf])
  %zero = constant(f32 () [0])
  %hidden = less(%real, %one)
  %bias = where(%hidden, %low, %zero)
  %a = attention(%q, %k, %x, %bias) {scale = 0.5} from "Attention"
  %rows = add(%a, %x)
  return %rows
}
"""

IDENTITY = "fn @main(%x: Tensor[(n, m), DTYPE]) {\n  return %x\n}\n"
TRANSPOSE = "fn @main(%x: Tensor[(n, m), DTYPE]) {\n  %y = transpose(%x) {perm = (1, 0)}\n  return %y\n}\n"
ADD = "fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32]) {\n  %z = add(%x, %y)\n  return %z\n}\n"


def dense(x, w, b):
    return np.maximum(x @ w + b, 0)


def dense_inputs(random, batch, seq):
    return {
        "x": random.standard_normal((batch, seq, 8), "float32"), "w": random.standard_normal(
            (8, 4), "float32"), "b": random.standard_normal(4, "float32")}


class Foreign:
    """An array that only DLPack can read, like a tensor of another library."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device_kind, self.exports = array, device, 0

    def __dlpack__(self, **options):
        self.exports += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device_kind


def address(array):
    return array.__array_interface__["data"][0]


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def peak_bytes():
    """The most that was resident since the last call of this function, or the process's start."""
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    return peak
