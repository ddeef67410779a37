#include "ir/random_tensor.h"

#include "ir/hash.h"

namespace anydim::ir {
namespace {

std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xcd9e8d57} * counter[2];
    counter = {high_half(second) ^ counter[1] ^ key[0], low_half(second),
               high_half(first) ^ counter[3] ^ key[1], low_half(first)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

Tensor random_tensor(DType dtype, std::vector<std::int64_t> dims, std::uint64_t seed,
                     std::string_view name) {
  Tensor tensor(dtype, std::move(dims));
  const std::uint64_t stream = fnv1a(name);
  const std::int64_t count = tensor.elements();
  std::array<std::uint32_t, 4> words{};
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 4 == 0) {
      const auto block = static_cast<std::uint64_t>(i / 4);
      words = philox({low_half(block), high_half(block), low_half(stream), high_half(stream)},
                     {low_half(seed), high_half(seed)});
    }
    const std::uint32_t word = words[static_cast<std::size_t>(i % 4)];
    if (is_float(dtype)) {
      tensor.set_real(i, (static_cast<double>(word >> 8) - 8388608.0) * 0x1p-27);
    } else {
      tensor.set_integer(i, dtype == DType::Bool ? word % 2 : word % 128);
    }
  }
  TensorOrigin origin;
  origin.file = name;
  origin.seed = seed;
  return Tensor(dtype, tensor.dims(), tensor.bytes(), tensor.owner(), std::move(origin));
}

}  // namespace anydim::ir
