#include "frontends/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "ir/error.h"

namespace anydim::frontends {

std::string quoted_name(std::string_view name) { return "'" + printable(name) + "'"; }

void check_bools(const ir::Tensor& tensor, const std::string& what) {
  if (tensor.dtype() != ir::DType::Bool) return;
  const auto bytes = tensor.bytes();
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  throw Error(ErrorKind::Malformed, "{} is bool, but element {} has the value {}: expected 0 or 1",
              what, bad - bytes.begin(), std::to_integer<int>(*bad));
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  constexpr std::size_t most = 16;
  if (dims.size() <= most) return fmt::format("[{}]", fmt::join(dims, ", "));
  return fmt::format("[{}, ... {} dims]", fmt::join(dims.begin(), dims.begin() + most, ", "),
                     dims.size());
}

std::int64_t tensor_bytes(std::string_view tensor_name, ir::DType dtype,
                          const std::vector<std::int64_t>& dims) {
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      throw Error(ErrorKind::Malformed, "tensor {} has the dims {}; a dim cannot be negative",
                  quoted_name(tensor_name), dims_text(dims));
    }
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  auto bytes = static_cast<std::int64_t>(ir::size_of(dtype));
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      throw Error(ErrorKind::Malformed, "tensor {} has the dims {}, whose size overflows 64 bits",
                  quoted_name(tensor_name), dims_text(dims));
    }
  }
  return bytes;
}

}  // namespace anydim::frontends
