// Tensors of concrete shape: constants of a module, inputs and outputs of a call, values of the
// reference evaluator.
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

// Where a large constant's bytes come from, for printing: @file("name", offset, length) or
// @random(seed). Empty file and no seed: inline.
struct TensorOrigin {
  std::string file;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::optional<std::uint64_t> seed;
  bool operator==(const TensorOrigin&) const = default;
};

// Where bytes come from that are read when they are needed, such as a place in a model's file.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Writes all of the tensor's bytes. Any thread. Throws Error.
  virtual void read(std::span<std::byte> to) const = 0;
};

// Row-major and contiguous. Bytes are shared between copies and kept alive by `owner` (an
// allocation aligned to 64 bytes, or a file mapping), or come from a source.
class Tensor {
 public:
  Tensor() = default;
  // Fresh zero-filled memory. Throws Error{Inputs} where the size overflows, Error{Resource} where
  // memory is short.
  Tensor(DType dtype, std::vector<std::int64_t> dims);
  // Shares foreign memory: `bytes` must stay valid while `owner` lives and have the exact size.
  Tensor(DType dtype, std::vector<std::int64_t> dims, std::span<const std::byte> bytes,
         std::shared_ptr<const void> owner, TensorOrigin origin = {});
  Tensor(DType dtype, std::vector<std::int64_t> dims, std::shared_ptr<const TensorSource> source);
  // Foreign memory of zeros that may be written: `zeros` must stay valid while `owner` lives and
  // have the exact size.
  static Tensor over(DType dtype, std::vector<std::int64_t> dims, std::span<std::byte> zeros,
                     std::shared_ptr<const void> owner);
  template <typename T>
  static Tensor of(DType dtype, std::vector<std::int64_t> dims, const std::vector<T>& elements);

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::size_t rank() const { return dims_.size(); }
  std::int64_t elements() const { return element_count(dims_); }
  std::size_t byte_size() const { return byte_size_; }
  // A source's bytes are read once and stay in memory as long as a copy of the tensor lives. Any
  // thread.
  std::span<const std::byte> bytes() const { return sourced_ ? kept_bytes() : bytes_; }
  bool is_sourced() const { return sourced_ != nullptr; }
  const TensorSource* source() const;  // null: the bytes are in memory
  // The same tensor with its bytes in memory: those of a source go with the last tensor that this
  // gives.
  Tensor opened() const;
  // Copies all bytes, from a source without keeping them.
  void copy_to(std::span<std::byte> to) const;
  // Whether the bytes are those of `other`, not only equal.
  bool shares(const Tensor& other) const {
    return sourced_ ? sourced_ == other.sourced_
                    : !other.sourced_ && bytes_.data() == other.bytes_.data();
  }
  const TensorOrigin& origin() const { return origin_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  template <typename T>
  std::span<const T> as() const {
    const std::span<const std::byte> all = bytes();
    return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
  }
  // Writable view; only for memory that this Tensor allocated or was made over, and before it is
  // shared.
  std::span<std::byte> mutable_bytes();
  template <typename T>
  std::span<T> mutable_as() {
    auto bytes = mutable_bytes();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // Element `index` (row-major) as a number, whatever the dtype (bf16 and f16 are widened; bool
  // gives 0 or 1).
  double real_at(std::int64_t index) const;
  std::int64_t integer_at(std::int64_t index) const;  // floats truncate towards zero and saturate
  void set_real(std::int64_t index, double value);    // rounds to nearest even into narrower floats
  void set_integer(std::int64_t index, std::int64_t value);

  bool same_bits(const Tensor& other) const;  // dtype, dims and bytes equal

 private:
  class Sourced;
  std::span<const std::byte> kept_bytes() const;

  DType dtype_ = DType::F32;
  std::vector<std::int64_t> dims_;
  std::span<const std::byte> bytes_;
  std::size_t byte_size_ = 0;
  std::shared_ptr<Sourced> sourced_;
  std::shared_ptr<const void> owner_;
  std::byte* writable_ = nullptr;
  TensorOrigin origin_;
};

// The elements of a tensor as numbers, for a pass over many of them. Bytes of a source go with it.
class Reals {
 public:
  explicit Reals(const Tensor& tensor) : tensor_(tensor.opened()) {
    if (tensor_.dtype() == DType::F32) floats_ = tensor_.as<float>();
  }
  std::size_t size() const { return static_cast<std::size_t>(tensor_.elements()); }
  double operator[](std::size_t index) const {
    return floats_.empty() ? tensor_.real_at(static_cast<std::int64_t>(index))
                           : static_cast<double>(floats_[index]);
  }

 private:
  Tensor tensor_;
  std::span<const float> floats_;
};

template <typename T>
Tensor Tensor::of(DType dtype, std::vector<std::int64_t> dims, const std::vector<T>& elements) {
  Tensor tensor(dtype, std::move(dims));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>)
      tensor.set_real(static_cast<std::int64_t>(i), elements[i]);
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
