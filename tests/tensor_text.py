"""Small tensors as text (docs/text-form.md, `tensor`) and as .npy files, without libraries.

A tensor is (dtype, dims, elements): the dtype's name in the text form, a tuple of ints, a list of
Python numbers. bf16 travels in .npy files as its bits in uint16, as `anydim run` writes it; read
back it is u16.
"""
import ast
import math
import re
import struct

# Name: (format of struct, of .npy).
DTYPES = {
    "f64": ("d", "<f8"), "f32": ("f", "<f4"), "f16": ("e", "<f2"), "bf16": ("H", "<u2"),
    "i64": ("q", "<i8"), "i32": ("i", "<i4"), "i16": ("h", "<i2"), "i8": ("b", "|i1"),
    "u64": ("Q", "<u8"), "u32": ("I", "<u4"), "u16": ("H", "<u2"), "u8": ("B", "|u1"),
    "bool": ("?", "|b1")}
FLOATS = ("f64", "f32", "f16")


def bf16_bits(value):
    """Rounds to nearest even; NaN stays NaN."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if math.isnan(value):
        return bits >> 16 | 0x40
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff


def element(dtype, text):
    text = text.strip()
    if dtype == "bool":
        return {"true": True, "false": False}[text]
    if dtype == "bf16":
        return bf16_bits(float(text))
    return float(text) if dtype in FLOATS else int(text)


def parse_tensor(text):
    match = re.fullmatch(r"(\w+) \(([^)]*)\)\s*=?\s*\[(.*)\]\s*", text, flags=re.DOTALL)
    if not match or match[1] not in DTYPES:
        raise ValueError(f"expected a tensor like 'f32 (2) [1, 2]', found '{text}'")
    dims = tuple(int(part) for part in match[2].split(",") if part.strip())
    elements = [element(match[1], part) for part in match[3].split(",") if part.strip()]
    if len(elements) != math.prod(dims):
        raise ValueError(
            f"a tensor {match[1]} {dims} has {math.prod(dims)} elements, '{text}' lists {len(elements)}"
        )
    return match[1], dims, elements


def shortest(dtype, value):
    """The shortest decimal that reads back as the same f32 or f64; f16 is written as the f32 it
    is."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if dtype == "f64":
        text = repr(value)
    else:
        text = next(
            text for digits in range(1, 10)
            if struct.pack("<f", float(text := f"{value:.{digits}g}")) == struct.pack("<f", value))
    return text[:-2] if text.endswith(".0") else text


def format_tensor(tensor):
    dtype, dims, elements = tensor
    if len(elements) > 64:
        raise ValueError(f"a tensor of {len(elements)} elements is too large for a text test")
    if dtype == "bool":
        texts = ["true" if value else "false" for value in elements]
    elif dtype in FLOATS:
        texts = [shortest(dtype, value) for value in elements]
    else:
        texts = [str(value) for value in elements]
    return f"{dtype} ({', '.join(map(str, dims))}) [{', '.join(texts)}]"


def same_within(wanted, got, tolerance):
    if wanted[:2] != got[:2]:
        return False
    if wanted[0] not in FLOATS:
        return wanted[2] == got[2]
    return all(
        (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= tolerance * max(1, abs(a))
        for a, b in zip(wanted[2], got[2]))


def write_npy(path, tensor):
    dtype, dims, elements = tensor
    code, descriptor = DTYPES[dtype]
    header = f"{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({''.join(f'{dim}, ' for dim in dims)}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(elements)}{code}", *elements))


def read_npy(path):
    raw = path.read_bytes()
    if raw[:6] != b"\x93NUMPY":
        raise ValueError(f"{path.name} is not an .npy file")
    length, start = (struct.unpack("<H", raw[8:10])[0],
                     10) if raw[6] == 1 else (struct.unpack("<I", raw[8:12])[0], 12)
    header = ast.literal_eval(raw[start:start + length].decode())
    dtype = next(name for name, (_, descriptor) in DTYPES.items()
                 if descriptor == header["descr"] and name != "bf16")
    if header["fortran_order"]:
        raise ValueError(f"{path.name} is stored by columns")
    dims = header["shape"]
    return dtype, dims, list(
        struct.unpack(f"<{math.prod(dims)}{DTYPES[dtype][0]}", raw[start + length:]))
