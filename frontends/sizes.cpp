#include "frontends/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/error.h"

namespace anydim::frontends {

std::string quoted_name(std::string_view name) {
  constexpr std::size_t longest = 200;
  std::string text = "'";
  for (const char c : name.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  if (name.size() > longest) text += "...";
  return text + "'";
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  constexpr std::size_t most = 16;
  if (dims.size() <= most) return fmt::format("[{}]", fmt::join(dims, ", "));
  return fmt::format("[{}, ... {} dims]", fmt::join(dims.begin(), dims.begin() + most, ", "), dims.size());
}

std::int64_t tensor_bytes(std::string_view tensor_name, ir::DType dtype, const std::vector<std::int64_t>& dims) {
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      throw Error(ErrorKind::Malformed,
                  fmt::format("tensor {} has the dims {}; a dim cannot be negative", quoted_name(tensor_name), dims_text(dims)));
    }
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  auto bytes = static_cast<std::int64_t>(ir::size_of(dtype));
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      throw Error(ErrorKind::Malformed,
                  fmt::format("tensor {} has the dims {}, whose size overflows 64 bits", quoted_name(tensor_name), dims_text(dims)));
    }
  }
  return bytes;
}

}  // namespace anydim::frontends
