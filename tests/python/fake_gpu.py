"""A GPU's memory and streams over the driver on the loader's path (tests/support/fake_libcuda.cpp),
and arrays there as another library would have them."""

import ctypes

import numpy as np

CUDA = 2  # DLPack's number of the device
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, [
    ctypes.py_object, ctypes.c_char_p]


handed_out = []  # what capsules point to stays until the process ends


class Gpu:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        address, size = ctypes.c_uint64, ctypes.c_size_t
        self.allocate = self.find("cuMemAlloc", ctypes.POINTER(address), size)
        self.to_device = self.find("cuMemcpyHtoDAsync", address, ctypes.c_void_p, size,
                                   ctypes.c_void_p)
        self.to_host = self.find("cuMemcpyDtoHAsync", ctypes.c_void_p, address, size,
                                 ctypes.c_void_p)
        self.synchronize = self.find("cuStreamSynchronize", ctypes.c_void_p)
        self.create = self.find("cuStreamCreate", ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint)

    def find(self, name, *arguments):
        found, status = ctypes.c_void_p(), ctypes.c_int()
        assert self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), 12000,
                                                ctypes.c_uint64(0), ctypes.byref(status)) == 0
        function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(found.value)

        def call(*given):
            assert function(*given) == 0, name

        return call

    def stream(self):
        handle = ctypes.c_void_p()
        self.create(ctypes.byref(handle), 1)
        return handle.value

    def read(self, capsule, stream):
        """What a capsule's array holds, in the order of the stream."""
        tensor = DLManagedTensor.from_address(capsule_pointer(capsule, b"dltensor")).tensor
        assert (tensor.device_type, tensor.device_id) == (CUDA, 0)
        kind = {number: kind for kind, number in CODES.items()}[tensor.code]
        host = np.empty([tensor.shape[axis] for axis in range(tensor.ndim)],
                        f"{kind}{tensor.bits // 8}")
        self.to_host(host.ctypes.data, tensor.data + tensor.byte_offset, host.nbytes, stream)
        self.synchronize(stream)
        return host


class GpuArray:
    """Filled on a stream, without a wait."""

    def __init__(self, gpu, host, stream, strides=None):
        self.gpu, self.host, self.stream, self.asked = gpu, np.ascontiguousarray(host), stream, []
        place = ctypes.c_uint64()
        gpu.allocate(ctypes.byref(place), max(self.host.nbytes, 1))
        self.address = place.value
        gpu.to_device(self.address, self.host.ctypes.data, self.host.nbytes, stream)
        self.shape = (ctypes.c_int64 * self.host.ndim)(*self.host.shape)
        self.strides = strides and (ctypes.c_int64 * self.host.ndim)(*strides)

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        dtype = self.host.dtype
        tensor = DLTensor(self.address, CUDA, 0, self.host.ndim, CODES[dtype.kind],
                          8 * dtype.itemsize, 1, self.shape, self.strides, 0)
        managed = DLManagedTensor(tensor, None, None)
        handed_out.append((self, managed))
        return capsule_new(ctypes.addressof(managed), b"dltensor", None)

    def read(self):
        host = np.empty_like(self.host)
        self.gpu.to_host(host.ctypes.data, self.address, host.nbytes, self.stream)
        self.gpu.synchronize(self.stream)
        return host
