#include "tests/ptx/kernels/kernel_run.h"

#include "codegen_cuda/nvrtc.h"

namespace anydim::ptx {

std::string compile_to_ptx(std::string_view source, const std::string& architecture) {
  const codegen_cuda::NvrtcOutput output = codegen_cuda::Nvrtc::open()->compile(
      std::string(device_helpers()) + std::string(source), "test_kernel", architecture,
      codegen_cuda::CudaOutput::Ptx);
  std::string text(reinterpret_cast<const char*>(output.code.data()), output.code.size());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

Matrix integer_matrix(int rows, int columns, int seed, int row_stride) {
  Matrix matrix(rows, columns, row_stride);
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761U + 1;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      state = state * 1664525U + 1013904223U;
      matrix.at(row, column) = static_cast<float>(static_cast<int>(state >> 24) % 9 - 4);
    }
  }
  return matrix;
}

Matrix product_of_rows(const Matrix& left, const Matrix& right) {
  Matrix product(left.rows, right.rows);
  for (int row = 0; row < left.rows; ++row) {
    for (int column = 0; column < right.rows; ++column) {
      float sum = 0;
      for (int k = 0; k < left.columns; ++k) sum += left.at(row, k) * right.at(column, k);
      product.at(row, column) = sum;
    }
  }
  return product;
}

std::vector<std::uint16_t> to_bfloat16(const Matrix& matrix) {
  std::vector<std::uint16_t> values;
  for (const float value : matrix.values) values.push_back(ir::float_to_bfloat16(value));
  return values;
}

TensorMapBytes matrix_map(DeviceAddress address, const Matrix& matrix, std::uint32_t box_rows,
                          std::uint32_t box_columns, int swizzle_bytes) {
  return encode_tensor_map({.dtype = ir::DType::BF16,
                            .address = address,
                            .dims = {static_cast<std::uint64_t>(matrix.columns),
                                     static_cast<std::uint64_t>(matrix.rows)},
                            .strides = {static_cast<std::uint64_t>(matrix.stride) * 2},
                            .box = {box_columns, box_rows},
                            .swizzle_bytes = swizzle_bytes});
}

std::vector<TimedRun> timed_runs() {
  return {{Timing::ResultsLate, 1},
          {Timing::OperandsLate, 1},
          {Timing::Random, 1},
          {Timing::Random, 2},
          {Timing::Random, 3}};
}

}  // namespace anydim::ptx
