// What tests of whole kernels share: CUDA source to PTX, parameter blocks, matrices of small
// integers.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"
#include "tests/ptx/interpreter.h"

namespace anydim::ptx {

// PTX of CUDA source through NVRTC, behind device_helpers(). Throws anydim::Error.
std::string compile_to_ptx(std::string_view source, const std::string& architecture = "sm_90a");

// Inline-PTX wrappers that the test kernels use: barriers, TMA, wgmma.
std::string_view device_helpers();

// A kernel's parameters, laid out as PTX does: each at its natural alignment.
class Parameters {
 public:
  template <class T>
  Parameters& add(const T& value, std::size_t alignment = alignof(T)) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
    return *this;
  }
  Parameters& add(const TensorMapBytes& map) {
    return add<TensorMapBytes>(map, tensor_map_alignment);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A row-major matrix; `stride` elements from row to row.
struct Matrix {
  int rows = 0;
  int columns = 0;
  int stride = 0;
  std::vector<float> values;

  Matrix(int row_count, int column_count, int row_stride = 0)
      : rows(row_count), columns(column_count), stride(row_stride == 0 ? column_count : row_stride),
        values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride)) {}
  float& at(int row, int column) {
    return values[static_cast<std::size_t>(row) * static_cast<std::size_t>(stride) +
                  static_cast<std::size_t>(column)];
  }
  float at(int row, int column) const {
    return values[static_cast<std::size_t>(row) * static_cast<std::size_t>(stride) +
                  static_cast<std::size_t>(column)];
  }
};

// Small integers that differ from place to place: exact in bf16, and so are their sums of products.
Matrix integer_matrix(int rows, int columns, int seed, int row_stride = 0);
// left (m x k) times right transposed (n x k).
Matrix product_of_rows(const Matrix& left, const Matrix& right);

std::vector<std::uint16_t> to_bfloat16(const Matrix& matrix);

template <class T>
DeviceAddress upload(Machine& machine, const std::vector<T>& values) {
  const DeviceAddress address = machine.allocate(values.size() * sizeof(T));
  machine.write(address, std::as_bytes(std::span(values)));
  return address;
}

template <class T>
std::vector<T> download(const Machine& machine, DeviceAddress address, std::size_t count) {
  std::vector<T> values(count);
  machine.read(address, std::as_writable_bytes(std::span(values)));
  return values;
}

// A bf16 matrix as a 2-D tensor map of boxes rows x columns.
TensorMapBytes matrix_map(DeviceAddress address, const Matrix& matrix, std::uint32_t box_rows,
                          std::uint32_t box_columns, int swizzle_bytes);

// The three timings, the last with some seeds.
struct TimedRun {
  Timing timing = Timing::ResultsLate;
  std::uint64_t seed = 1;
};
std::vector<TimedRun> timed_runs();

}  // namespace anydim::ptx
