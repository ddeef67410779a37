// A descriptor of tensor memory access, as the driver encodes it.
struct alignas(64) TensorMap {
  char bytes[128];
};
