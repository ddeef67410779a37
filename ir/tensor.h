// Tensors of concrete shape: constants of a module, inputs and outputs of a call, values of the reference evaluator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/type.h"

namespace anydim::ir {

// Where a large constant's bytes come from, for printing: @file("name", offset, length) or @random(seed). Empty file and no seed: inline.
struct TensorOrigin {
  std::string file;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::optional<std::uint64_t> seed;
  bool operator==(const TensorOrigin&) const = default;
};

// Row-major and contiguous. Bytes are shared between copies and kept alive by `owner` (an allocation aligned to 64 bytes, or a file mapping).
class Tensor {
 public:
  Tensor() = default;
  // Fresh zero-filled memory. Throws Error{Inputs} where the size overflows, Error{Resource} where memory is short.
  Tensor(DType dtype, std::vector<std::int64_t> dims);
  // Shares foreign memory: `bytes` must stay valid while `owner` lives and have the exact size.
  Tensor(DType dtype, std::vector<std::int64_t> dims, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
         TensorOrigin origin = {});
  template <typename T>
  static Tensor of(DType dtype, std::vector<std::int64_t> dims, const std::vector<T>& elements);

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::size_t rank() const { return dims_.size(); }
  std::int64_t elements() const { return element_count(dims_); }
  std::span<const std::byte> bytes() const { return bytes_; }
  const TensorOrigin& origin() const { return origin_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  // Writable view; only for memory that this Tensor allocated (fresh constructor) and before it is shared.
  std::span<std::byte> mutable_bytes();
  template <typename T>
  std::span<T> mutable_as() {
    auto bytes = mutable_bytes();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // Element `index` (row-major) as a number, whatever the dtype (bf16 and f16 are widened; bool gives 0 or 1).
  double real_at(std::int64_t index) const;
  std::int64_t integer_at(std::int64_t index) const;  // floats truncate towards zero and saturate
  void set_real(std::int64_t index, double value);    // rounds to nearest even into narrower floats
  void set_integer(std::int64_t index, std::int64_t value);

  bool same_bits(const Tensor& other) const;  // dtype, dims and bytes equal

 private:
  DType dtype_ = DType::F32;
  std::vector<std::int64_t> dims_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::byte* writable_ = nullptr;
  TensorOrigin origin_;
};

template <typename T>
Tensor Tensor::of(DType dtype, std::vector<std::int64_t> dims, const std::vector<T>& elements) {
  Tensor tensor(dtype, std::move(dims));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) tensor.set_real(static_cast<std::int64_t>(i), elements[i]);
    else tensor.set_integer(static_cast<std::int64_t>(i), static_cast<std::int64_t>(elements[i]));
  }
  return tensor;
}

// IEEE half and bfloat16, round to nearest even.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);

}  // namespace anydim::ir
