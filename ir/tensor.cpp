#include "ir/tensor.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "ir/error.h"
#include "ir/huge_pages.h"

namespace anydim::ir {

namespace {

// Weights pass through memory that is written once, read once and given back: with small pages most
// of that time would go to the kernel.
std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  const std::align_val_t alignment{bytes < huge_page ? 64 : huge_page};
  void* memory = ::operator new(std::max<std::size_t>(bytes, 1), alignment, std::nothrow);
  if (memory == nullptr) {
    throw Error(ErrorKind::Resource, "out of memory: a tensor needs {} bytes", bytes);
  }
  if (bytes >= huge_page) ask_for_huge_pages(memory, bytes);
  return {static_cast<std::byte*>(memory),
          [alignment](std::byte* p) { ::operator delete(p, alignment); }};
}

// Rounds towards zero and makes the last bit odd where that lost something; a second rounding to a
// narrower float is then exact.
float rounded_to_odd(long double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(nearest) || static_cast<long double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<long double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <typename Integer>
Integer saturate(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  const double truncated = std::trunc(value);
  if (truncated < static_cast<double>(Limits::min())) return Limits::min();
  // max() + 1 is a power of two, so exact as a double, which max() itself may not be.
  if (truncated >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return static_cast<Integer>(truncated);
}

// Calls `use` with a value of the C++ type that stores one element.
template <typename Use>
auto with_storage(DType dtype, Use&& use) {
  switch (dtype) {
    case DType::F64: return use(double{});
    case DType::F32: return use(float{});
    case DType::F16:
    case DType::BF16:
    case DType::U16: return use(std::uint16_t{});
    case DType::I64: return use(std::int64_t{});
    case DType::I32: return use(std::int32_t{});
    case DType::I16: return use(std::int16_t{});
    case DType::I8: return use(std::int8_t{});
    case DType::U64: return use(std::uint64_t{});
    case DType::U32: return use(std::uint32_t{});
    case DType::U8:
    case DType::Bool: return use(std::uint8_t{});
  }
  internal_error("a dtype is one of the enumerators");
}

}  // namespace

class Tensor::Sourced {
 public:
  Sourced(std::shared_ptr<const TensorSource> source, std::size_t size)
      : source_(std::move(source)), size_(size) {}

  const TensorSource& source() const { return *source_; }
  void copy_to(std::span<std::byte> to) const { source_->read(to); }

  std::shared_ptr<const std::byte> open() {
    const std::lock_guard lock(mutex_);
    return locked_open();
  }

  const std::byte* keep() {
    if (const std::byte* address = address_.load(std::memory_order_acquire)) return address;
    const std::lock_guard lock(mutex_);
    kept_ = locked_open();
    address_.store(kept_.get(), std::memory_order_release);
    return kept_.get();
  }

 private:
  std::shared_ptr<const std::byte> locked_open() {
    if (kept_) return kept_;
    if (auto open = open_.lock()) return open;
    auto memory = allocate(size_);
    source_->read({memory.get(), size_});
    open_ = memory;
    return memory;
  }

  const std::shared_ptr<const TensorSource> source_;
  const std::size_t size_;
  std::mutex mutex_;
  std::weak_ptr<const std::byte> open_;
  std::shared_ptr<const std::byte> kept_;
  std::atomic<const std::byte*> address_ = nullptr;  // of kept_
};

Tensor::Tensor(DType dtype, std::vector<std::int64_t> dims,
               std::shared_ptr<const TensorSource> source)
    : dtype_(dtype), dims_(std::move(dims)),
      byte_size_(static_cast<std::size_t>(byte_count(dtype_, dims_))),
      sourced_(std::make_shared<Sourced>(std::move(source), byte_size_)), owner_(sourced_) {}

Tensor Tensor::over(DType dtype, std::vector<std::int64_t> dims, std::span<std::byte> zeros,
                    std::shared_ptr<const void> owner) {
  Tensor tensor(dtype, std::move(dims), zeros, std::move(owner));
  tensor.writable_ = zeros.data();
  return tensor;
}

const TensorSource* Tensor::source() const { return sourced_ ? &sourced_->source() : nullptr; }

std::span<const std::byte> Tensor::kept_bytes() const { return {sourced_->keep(), byte_size_}; }

Tensor Tensor::opened() const {
  if (!sourced_) return *this;
  std::shared_ptr<const std::byte> memory = sourced_->open();
  const std::span bytes(memory.get(), byte_size_);
  return {dtype_, dims_, bytes, std::move(memory), origin_};
}

void Tensor::copy_to(std::span<std::byte> to) const {
  internal_check(to.size() == byte_size_, "a tensor is copied to as many bytes as it has");
  if (sourced_) return sourced_->copy_to(to);
  if (!to.empty()) std::memcpy(to.data(), bytes_.data(), to.size());
}

Tensor::Tensor(DType dtype, std::vector<std::int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)) {
  const auto bytes = static_cast<std::size_t>(byte_count(dtype_, dims_));
  auto memory = allocate(bytes);
  writable_ = memory.get();
  std::memset(writable_, 0, bytes);
  bytes_ = {writable_, bytes};
  byte_size_ = bytes;
  owner_ = std::move(memory);
}

Tensor::Tensor(DType dtype, std::vector<std::int64_t> dims, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner, TensorOrigin origin)
    : dtype_(dtype), dims_(std::move(dims)), bytes_(bytes), byte_size_(bytes.size()),
      owner_(std::move(owner)), origin_(std::move(origin)) {
  internal_check(static_cast<std::int64_t>(bytes.size()) == byte_count(dtype_, dims_),
                 "shared bytes have the tensor's exact size");
}

std::span<std::byte> Tensor::mutable_bytes() {
  internal_check(writable_ != nullptr || bytes_.empty(),
                 "a tensor is written only in memory that it allocated");
  return {writable_, bytes_.size()};
}

double Tensor::real_at(std::int64_t index) const {
  internal_check(index >= 0 && static_cast<std::size_t>(index) < byte_size_ / size_of(dtype_),
                 "an index is inside its tensor");
  const auto i = static_cast<std::size_t>(index);
  if (dtype_ == DType::F16) return half_to_float(as<std::uint16_t>()[i]);
  if (dtype_ == DType::BF16) return bfloat16_to_float(as<std::uint16_t>()[i]);
  if (dtype_ == DType::Bool) return as<std::uint8_t>()[i] != 0 ? 1 : 0;
  return with_storage(dtype_, [&]<typename T>(T) { return static_cast<double>(as<T>()[i]); });
}

std::int64_t Tensor::integer_at(std::int64_t index) const {
  if (is_float(dtype_) || dtype_ == DType::Bool) return saturate<std::int64_t>(real_at(index));
  internal_check(index >= 0 && static_cast<std::size_t>(index) < byte_size_ / size_of(dtype_),
                 "an index is inside its tensor");
  return with_storage(dtype_, [&]<typename T>(T) {
    return static_cast<std::int64_t>(as<T>()[static_cast<std::size_t>(index)]);
  });
}

void Tensor::set_real(std::int64_t index, double value) {
  const auto i = static_cast<std::size_t>(index);
  internal_check(index >= 0 && i < bytes_.size() / size_of(dtype_),
                 "an index is inside its tensor");
  if (dtype_ == DType::F16) {
    mutable_as<std::uint16_t>()[i] = float_to_half(rounded_to_odd(value));
  } else if (dtype_ == DType::BF16) {
    mutable_as<std::uint16_t>()[i] = float_to_bfloat16(rounded_to_odd(value));
  } else if (dtype_ == DType::Bool) {
    mutable_as<std::uint8_t>()[i] = value != 0 ? 1 : 0;
  } else {
    with_storage(dtype_, [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<T>) {
        mutable_as<T>()[i] = static_cast<T>(value);
      } else {
        mutable_as<T>()[i] = saturate<T>(value);
      }
    });
  }
}

void Tensor::set_integer(std::int64_t index, std::int64_t value) {
  const auto i = static_cast<std::size_t>(index);
  internal_check(index >= 0 && i < bytes_.size() / size_of(dtype_),
                 "an index is inside its tensor");
  if (dtype_ == DType::F16) {
    mutable_as<std::uint16_t>()[i] = float_to_half(rounded_to_odd(static_cast<long double>(value)));
  } else if (dtype_ == DType::BF16) {
    mutable_as<std::uint16_t>()[i] =
        float_to_bfloat16(rounded_to_odd(static_cast<long double>(value)));
  } else if (dtype_ == DType::Bool) {
    mutable_as<std::uint8_t>()[i] = value != 0 ? 1 : 0;
  } else {
    with_storage(dtype_, [&]<typename T>(T) { mutable_as<T>()[i] = static_cast<T>(value); });
  }
}

bool Tensor::same_bits(const Tensor& other) const {
  if (dtype_ != other.dtype_ || dims_ != other.dims_) return false;
  return byte_size_ == 0 || shares(other) ||
         std::memcmp(bytes().data(), other.bytes().data(), byte_size_) == 0;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  constexpr std::uint32_t infinity = 0x7f800000u;
  // 65520: half way past the largest half, which ties to infinity
  constexpr std::uint32_t overflow = 0x477ff000u;
  constexpr std::uint32_t smallest_normal = 0x38800000u;  // 2^-14
  // 2^-25: half the smallest subnormal, which ties to zero
  constexpr std::uint32_t underflow = 0x33000000u;
  std::uint32_t result = 0;
  if (magnitude > infinity) {
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // stays a (quiet) NaN
  } else if (magnitude >= overflow) {
    result = 0x7c00u;
  } else if (magnitude >= smallest_normal) {
    const std::uint32_t rebased = magnitude - ((127u - 15u) << 23);
    result = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
  } else if (magnitude > underflow) {
    const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = 126u - (magnitude >> 23);
    const std::uint32_t half_way = 1u << (shift - 1);
    const std::uint32_t lost = mantissa & ((1u << shift) - 1u);
    result = mantissa >> shift;
    if (lost > half_way || (lost == half_way && (result & 1u) != 0)) ++result;
  }
  return static_cast<std::uint16_t>(sign | result);
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace anydim::ir
