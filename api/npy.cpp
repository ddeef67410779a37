#include "api/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace anydim {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t largest_header = 1 << 16;

// Types without a row have no bytes of their own in a .npy file.
constexpr std::pair<std::string_view, ir::DType> descriptions[] = {
    {"<f8", ir::DType::F64}, {"<f4", ir::DType::F32}, {"<f2", ir::DType::F16},
    {"<i8", ir::DType::I64}, {"<i4", ir::DType::I32}, {"<i2", ir::DType::I16},
    {"|i1", ir::DType::I8},  {"<u8", ir::DType::U64}, {"<u4", ir::DType::U32},
    {"<u2", ir::DType::U16}, {"|u1", ir::DType::U8},  {"|b1", ir::DType::Bool}};

struct Header {
  std::string description;
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

// Reads the one Python dictionary literal that a header holds.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  std::optional<Header> read() {
    Header header;
    bool described = false, ordered = false, shaped = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr" && !described) {
        const auto value = quoted();
        if (!value) return std::nullopt;
        header.description = *value;
        described = true;
      } else if (*key == "fortran_order" && !ordered) {
        if (word("True")) header.fortran = true;
        else if (!word("False")) return std::nullopt;
        ordered = true;
      } else if (*key == "shape" && !shaped) {
        if (!read_shape(header.shape)) return std::nullopt;
        shaped = true;
      } else {
        return std::nullopt;
      }
      if (!take(',')) {
        if (!take('}')) return std::nullopt;
        break;
      }
    }
    skip_space();
    return described && ordered && shaped && rest_.empty() ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0)
      rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view wanted) {
    skip_space();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  std::optional<std::string> quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool read_shape(std::vector<std::int64_t>& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      std::int64_t extent = 0;
      const auto [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (fault != std::errc{} || extent < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      word("L");  // written by Python 2
      shape.push_back(extent);
      if (!take(',')) return take(')');
    }
    return true;
  }

  std::string_view rest_;
};

std::string dims_text(const std::vector<std::int64_t>& dims) {
  constexpr std::size_t most = 16;
  if (dims.size() <= most) return fmt::format("{}", fmt::join(dims, ", "));
  return fmt::format("{}, ... {} dims", fmt::join(dims.begin(), dims.begin() + most, ", "),
                     dims.size());
}

std::int64_t checked_bytes(ir::DType dtype, const std::vector<std::int64_t>& shape) {
  try {
    return ir::byte_count(dtype, shape);
  } catch (const Error&) {
    return -1;
  }
}

// Elements stored with the first index fastest, put in row-major order.
void from_fortran_order(std::span<const std::byte> stored, ir::Tensor& tensor) {
  const std::size_t size = ir::size_of(tensor.dtype()), rank = tensor.rank();
  std::vector<std::int64_t> strides(rank, 1), index(rank, 0);
  for (std::size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * tensor.dims()[i - 1];
  std::span<std::byte> target = tensor.mutable_bytes();
  std::int64_t from = 0;
  for (std::size_t at = 0; at < target.size(); at += size) {
    std::memcpy(target.data() + at, stored.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t i = rank; i-- > 0;) {
      from += strides[i];
      if (++index[i] < tensor.dims()[i]) break;
      from -= strides[i] * tensor.dims()[i];
      index[i] = 0;
    }
  }
}

}  // namespace

ir::Tensor read_npy(const std::filesystem::path& file) {
  const auto malformed = [&](const std::string& why) {
    return Error(ErrorKind::Malformed, "{}: {}", file.string(), why);
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw malformed("there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw malformed("this is no regular file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw malformed("cannot be opened");
  const std::uintmax_t file_bytes = std::filesystem::file_size(file);

  char start[8] = {};
  stream.read(start, sizeof start);
  if (stream.gcount() != sizeof start || std::string_view(start, magic.size()) != magic)
    throw malformed("this is no .npy file");
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    throw malformed(
        fmt::format(".npy version {}.{} is not known; 1.0 to 3.0 are", version, int{start[7]}));
  unsigned char length[4] = {};
  stream.read(reinterpret_cast<char*>(length), version == 1 ? 2 : 4);
  const std::uint64_t header_bytes =
      length[0] + 256ULL * length[1] + 65536ULL * length[2] + 16777216ULL * length[3];
  if (!stream || header_bytes > largest_header)
    throw malformed("its header is truncated or too long");
  std::string text(header_bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(header_bytes));
  if (!stream) throw malformed("its header is truncated");
  const auto header = HeaderReader(text).read();
  if (!header)
    throw malformed("its header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");

  std::optional<ir::DType> dtype;
  for (const auto& [description, known] : descriptions) {
    if (header->description == description) dtype = known;
  }
  if (!dtype) {
    throw malformed(
        fmt::format("element type '{}' is not known; known are little-endian f2, f4, f8, i1 to i8, "
                    "u1 to u8 and b1",
                    ir::printable(header->description)));
  }
  const std::int64_t bytes = checked_bytes(*dtype, header->shape);
  const std::uintmax_t before = 8 + (version == 1 ? 2 : 4) + header_bytes;
  if (bytes < 0 || file_bytes - before != static_cast<std::uintmax_t>(bytes)) {
    throw malformed(fmt::format("shape ({}) of '{}' needs {} bytes, but the file holds {}",
                                dims_text(header->shape), header->description,
                                bytes < 0 ? std::string("too many") : std::to_string(bytes),
                                file_bytes - before));
  }
  ir::Tensor tensor(*dtype, header->shape);
  std::vector<std::byte> stored;
  std::span<std::byte> target = tensor.mutable_bytes();
  const bool reorder = header->fortran && tensor.rank() > 1;
  if (reorder) {
    stored.resize(target.size());
    target = stored;
  }
  stream.read(reinterpret_cast<char*>(target.data()), static_cast<std::streamsize>(target.size()));
  if (!stream) throw malformed("its data cannot be read");
  if (reorder) from_fortran_order(stored, tensor);
  if (*dtype == ir::DType::Bool) {
    for (const std::byte byte : tensor.bytes()) {
      if (byte > std::byte{1})
        throw malformed(
            fmt::format("a bool is 0 or 1, but the file holds {}", static_cast<int>(byte)));
    }
  }
  return tensor;
}

std::string npy_header(const ir::Tensor& tensor) {
  const ir::DType stored = tensor.dtype() == ir::DType::BF16 ? ir::DType::U16 : tensor.dtype();
  std::string_view description;
  for (const auto& [name, dtype] : descriptions) {
    if (dtype == stored) description = name;
  }
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", description,
                  fmt::join(tensor.dims(), ", "), tensor.rank() == 1 ? "," : "");
  // The data begins at a multiple of 64 bytes; the header ends with a line feed.
  const std::size_t prefix = magic.size() + 2 + 2;
  text.append((64 - (prefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header(magic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace anydim
