#include "tests/codegen_cuda/matmul_cases.h"

#include <fmt/format.h>

namespace anydim::codegen_cuda::testing {

std::string matmul_text(const MatmulText& matmul) {
  const MatmulEpilogue epilogue = matmul.epilogue;
  const std::string& wide = matmul.result;
  const auto tensor = [](const std::string& dims, const std::string& dtype) {
    return fmt::format("Tensor[({}), {}]", dims, dtype);
  };
  const std::string result = tensor(fmt::format("n, {}", matmul.columns), wide),
                    row = tensor(std::to_string(matmul.columns), wide);
  std::string parameters =
      fmt::format("%x: {}, %w: {}",
                  tensor(matmul.left_transposed ? fmt::format("{}, n", matmul.depth)
                                                : fmt::format("n, {}", matmul.depth),
                         matmul.dtype),
                  tensor(matmul.columns_major ? fmt::format("{}, {}", matmul.columns, matmul.depth)
                                              : fmt::format("{}, {}", matmul.depth, matmul.columns),
                         matmul.dtype));
  std::string body, left = "%x", right = "%w", value = "%product";
  if (matmul.left_transposed) {
    body += "  %xt = transpose(%x) {perm = (1, 0)}\n";
    left = "%xt";
  }
  if (matmul.columns_major) {
    body += "  %wt = transpose(%w) {perm = (1, 0)}\n";
    right = "%wt";
  }
  if (matmul.dtype != wide) {
    body += fmt::format("  %left = cast({}) {{to = {}}}\n  %right = cast({}) {{to = {}}}\n", left,
                        wide, right, wide);
    left = "%left";
    right = "%right";
  }
  body += fmt::format("  %product = matmul({}, {})\n", left, right);
  if (epilogue != MatmulEpilogue::None) {
    parameters += ", %bias: " + row;
    body += "  %sum = add(%product, %bias)\n";
    value = "%sum";
  }
  if (epilogue == MatmulEpilogue::BiasGelu) {
    body += "  %result = gelu(%sum)\n";
    value = "%result";
  }
  if (epilogue == MatmulEpilogue::Residual) {
    parameters += ", %rest: " + result;
    body += "  %result = add(%sum, %rest)\n";
    value = "%result";
  }
  return fmt::format("fn @main({}) -> {}\n  where n in [0, 100000] {{\n{}  return {}\n}}\n",
                     parameters, result, body, value);
}

}  // namespace anydim::codegen_cuda::testing
