#include "ir/text/tensor_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/error.h"
#include "ir/number_text.h"
#include "ir/printable.h"
#include "ir/quote.h"
#include "ir/random_tensor.h"
#include "ir/text/lexer.h"
#include "ir/text/parse_dim.h"

namespace anydim::ir {
namespace {

constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Bits of the quiet NaN that `nan` stands for.
std::uint64_t usual_nan(DType dtype) {
  switch (dtype) {
    case DType::F64: return 0x7ff8000000000000u;
    case DType::F32: return 0x7fc00000u;
    case DType::F16: return 0x7e00u;
    default: return 0x7fc0u;
  }
}

std::uint64_t element_bits(const Tensor& tensor, std::int64_t index) {
  const std::size_t size = size_of(tensor.dtype());
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.bytes().data() + static_cast<std::size_t>(index) * size, size);
  return bits;
}

void append_element(std::string& out, const Tensor& tensor, std::int64_t index) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::U64) return append_number(out, element_bits(tensor, index));
  if (dtype == DType::Bool) {
    out += element_bits(tensor, index) != 0 ? "true" : "false";
    return;
  }
  if (!is_float(dtype)) return append_number(out, tensor.integer_at(index));
  const double value = tensor.real_at(index);
  if (std::isnan(value)) {
    const std::uint64_t bits = element_bits(tensor, index);
    out += bits == usual_nan(dtype) ? "nan" : fmt::format("nan(0x{:x})", bits);
  } else if (dtype == DType::F64) {
    append_number(out, value);
  } else {
    append_number(out, static_cast<float>(value));  // exact: every narrower float is a float
  }
}

void append_base64(std::string& out, std::span<const std::byte> bytes) {
  out.reserve(out.size() + bytes.size() * 4 / 3 + 8);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<std::uint32_t>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? base64_digits[group >> (18 - 6 * j) & 63] : '=';
  }
}

// A bool whose byte is neither 0 nor 1 has no name.
bool has_names(const Tensor& tensor) {
  if (tensor.dtype() != DType::Bool) return true;
  for (const std::byte byte : tensor.bytes()) {
    if (byte > std::byte{1}) return false;
  }
  return true;
}

void append_contents(std::string& out, const Tensor& tensor) {
  if (tensor.elements() <= largest_inline_tensor && has_names(tensor)) {
    out += '[';
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (i > 0) out += ", ";
      append_element(out, tensor, i);
    }
    out += ']';
    return;
  }
  out += "@bytes(\"";
  append_base64(out, tensor.bytes());
  out += "\")";
}

void append_type(std::string& out, const Tensor& tensor) {
  out += fmt::format("{} ({}) ", name_of(tensor.dtype()), fmt::join(tensor.dims(), ", "));
}

class TensorReader {
 public:
  TensorReader(TokenStream& tokens, std::string_view name, const FileResolver& files)
      : tokens_(tokens), name_(name), files_(files) {}

  Tensor read() {
    begin_ = tokens_.peek().offset;
    dtype_ = read_dtype(tokens_);
    dims_ = tokens_.list("(", [this] { return read_integer(tokens_, "an extent"); }, ")");
    tokens_.accept("=");  // `x: f32 (2) = [1, 2]` reads well in inputs of tests
    try {
      byte_count(dtype_, dims_);
    } catch (const Error& error) {
      tokens_.fail(begin_, error.what());
    }
    if (tokens_.at("[")) return elements();
    const Token& next = tokens_.peek();
    if (next.kind == TokenKind::GlobalName) {
      if (next.text == "bytes") return bytes();
      if (next.text == "random") return random();
      if (next.text == "file") return file();
    }
    tokens_.expected("the elements: [...], @bytes(...), @random(...) or @file(...)");
  }

  // One element, without its dtype.
  Tensor element_of(DType dtype) {
    dtype_ = dtype;
    std::vector<std::byte> bytes;
    element(bytes);
    return from_bytes(bytes);
  }

 private:
  Tensor from_bytes(const std::vector<std::byte>& bytes) {
    Tensor tensor(dtype_, dims_);
    if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
    return tensor;
  }

  Tensor elements() {
    std::vector<std::byte> bytes;
    tokens_.expect("[");
    std::int64_t count = 0;
    if (!tokens_.at("]"))
      tokens_.separated([&] {
        element(bytes);
        ++count;
      });
    tokens_.expect("]");
    if (count != element_count(dims_)) {
      tokens_.fail(begin_, "a tensor {} has {} elements, this one lists {}", shape_text(),
                   element_count(dims_), count);
    }
    return from_bytes(bytes);
  }

  std::string shape_text() const {
    return fmt::format("{} ({})", name_of(dtype_), fmt::join(dims_, ", "));
  }

  void append_bits(std::vector<std::byte>& bytes, std::uint64_t bits) {
    const auto* from = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), from, from + size_of(dtype_));
  }

  void element(std::vector<std::byte>& bytes) {
    if (dtype_ == DType::Bool) {
      const bool truth = tokens_.at("true");
      if (!truth && !tokens_.at("false")) tokens_.expected("true or false");
      tokens_.take();
      append_bits(bytes, truth ? 1 : 0);
    } else if (is_float(dtype_)) {
      append_bits(bytes, real_bits());
    } else {
      append_bits(bytes, integer_bits());
    }
  }

  template <typename Number>
  Number number(std::size_t begin, const std::string& text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
      tokens_.fail(begin, "'{}' is not a number of dtype {}", printable(text), name_of(dtype_));
    }
    if (error != std::errc{})
      tokens_.fail(begin, "{} is out of the range of {}", text, name_of(dtype_));
    return value;
  }

  std::uint64_t real_bits() {
    const std::size_t begin = tokens_.peek().offset;
    const bool negative = tokens_.accept("-");
    double wide = 0;
    if (tokens_.accept("nan")) {
      if (tokens_.accept("(")) return nan_payload();
      wide = std::numeric_limits<double>::quiet_NaN();
      const std::uint64_t sign = negative ? std::uint64_t{1} << (8 * size_of(dtype_) - 1) : 0;
      return usual_nan(dtype_) | sign;
    }
    if (tokens_.accept("inf")) {
      wide = std::numeric_limits<double>::infinity();
    } else {
      const Token token = tokens_.expect(TokenKind::Number, "a number, inf or nan");
      // Each width is read directly: through a wider one it would be rounded twice.
      if (dtype_ == DType::F64) {
        wide = number<double>(begin, token.text);
      } else {
        wide = number<float>(begin, token.text);
      }
    }
    if (negative) wide = -wide;
    const auto narrow = static_cast<float>(wide);
    if (dtype_ == DType::F64) return std::bit_cast<std::uint64_t>(wide);
    if (dtype_ == DType::F32) return std::bit_cast<std::uint32_t>(narrow);
    return dtype_ == DType::F16 ? float_to_half(narrow) : float_to_bfloat16(narrow);
  }

  std::uint64_t nan_payload() {
    const Token token = tokens_.expect(TokenKind::Number, "the bits of the NaN, 0x...");
    tokens_.expect(")");
    const std::string_view text = token.text;
    std::uint64_t bits = 0;
    const char* end = text.data() + text.size();
    const bool prefixed = text.starts_with("0x");
    const auto result = prefixed ? std::from_chars(text.data() + 2, end, bits, 16)
                                 : std::from_chars_result{text.data(), {}};
    const std::size_t width = 8 * size_of(dtype_);
    if (result.ec != std::errc{} || result.ptr != end || !prefixed ||
        (width < 64 && bits >> width != 0)) {
      tokens_.fail(token, "'{}' is not {} bits in hexadecimal", printable(text), width);
    }
    return bits;
  }

  std::uint64_t integer_bits() {
    const std::size_t begin = tokens_.peek().offset;
    const std::string sign = tokens_.accept("-") ? "-" : "";
    const std::string text = sign + tokens_.expect(TokenKind::Number, "an integer").text;
    if (dtype_ == DType::U64) return number<std::uint64_t>(begin, text);
    const auto value = number<std::int64_t>(begin, text);
    const auto width = static_cast<int>(8 * size_of(dtype_));
    const bool has_sign = is_signed(dtype_);
    const std::int64_t high = has_sign ? std::numeric_limits<std::int64_t>::max() >> (64 - width)
                                       : (std::int64_t{1} << width) - 1;
    const std::int64_t low = has_sign ? -high - 1 : 0;
    if (value < low || value > high)
      tokens_.fail(begin, "{} is out of the range of {}", text, name_of(dtype_));
    return static_cast<std::uint64_t>(value);
  }

  Tensor bytes() {
    tokens_.take();
    tokens_.expect("(");
    const Token token = tokens_.expect(TokenKind::String, "the bytes in base64, quoted");
    tokens_.expect(")");
    const std::vector<std::byte> decoded = decode(token);
    const auto wanted = static_cast<std::size_t>(byte_count(dtype_, dims_));
    if (decoded.size() != wanted) {
      tokens_.fail(begin_, "a tensor {} takes {} bytes, this one holds {}", shape_text(), wanted,
                   decoded.size());
    }
    return from_bytes(decoded);
  }

  std::vector<std::byte> decode(const Token& token) {
    const std::string_view text = token.text;
    std::vector<std::byte> out;
    out.reserve(text.size() / 4 * 3);
    if (text.size() % 4 != 0) tokens_.fail(token, "base64 comes in groups of four characters");
    const std::size_t padding = text.size() - std::min(text.find_last_not_of('=') + 1, text.size());
    if (padding > 2) tokens_.fail(token, "base64 ends in at most two '='");
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool pad = i + padding >= text.size();
      const std::size_t digit = pad ? 0 : base64_digits.find(text[i]);
      if (digit == std::string_view::npos)
        tokens_.fail(token.offset + 1 + i, "'{}' is not a digit of base64", text[i]);
      group = group << 6 | static_cast<std::uint32_t>(digit);
      if (i % 4 != 3) continue;
      const std::size_t kept = i + 1 == text.size() ? 3 - padding : 3;
      for (std::size_t j = 0; j < kept; ++j)
        out.push_back(static_cast<std::byte>(group >> (16 - 8 * j) & 255));
      group = 0;
    }
    return out;
  }

  Tensor random() {
    tokens_.take();
    tokens_.expect("(");
    const Token token = tokens_.expect(TokenKind::Number, "the seed");
    const auto seed = parsed_number<std::uint64_t>(token.text);
    if (!seed)
      tokens_.fail(token, "the seed '{}' is not an unsigned 64-bit integer", printable(token.text));
    const std::string key =
        tokens_.at(",") ? tokens_.quoted_behind(",", "the name that keys the numbers, quoted")
                        : std::string(name_);
    tokens_.expect(")");
    return random_tensor(dtype_, dims_, *seed, key);
  }

  Tensor file() {
    tokens_.take();
    tokens_.expect("(");
    const Token path = tokens_.expect(TokenKind::String, "the name of a file, quoted");
    tokens_.expect(",");
    const std::int64_t offset = read_integer(tokens_, "the offset in bytes");
    tokens_.expect(",");
    const std::size_t at_length = tokens_.peek().offset;
    const std::int64_t length = read_integer(tokens_, "the length in bytes");
    tokens_.expect(")");
    if (offset < 0)
      tokens_.fail(path, "the offset into '{}' is negative: {}", printable(path.text), offset);
    if (length != byte_count(dtype_, dims_)) {
      tokens_.fail(at_length, "a tensor {} takes {} bytes, the reference gives {}", shape_text(),
                   byte_count(dtype_, dims_), length);
    }
    if (!files_)
      tokens_.fail(path, "this text refers to the file {}, but may not read files here",
                   quote(path.text));
    return files_(path.text, offset, length, dtype_, dims_);
  }

  TokenStream& tokens_;
  std::string_view name_;
  const FileResolver& files_;
  std::size_t begin_ = 0;
  DType dtype_ = DType::F32;
  std::vector<std::int64_t> dims_;
};

}  // namespace

void append_real(std::string& out, double value) {
  Tensor tensor(DType::F64, {});
  tensor.set_real(0, value);
  append_element(out, tensor, 0);
}

double read_real(TokenStream& tokens) {
  return TensorReader(tokens, {}, {}).element_of(DType::F64).real_at(0);
}

void append_tensor(std::string& out, const Tensor& tensor, std::string_view name) {
  append_type(out, tensor);
  const TensorOrigin& origin = tensor.origin();
  const bool large = tensor.elements() > largest_inline_tensor;
  if (large && origin.seed) {
    out += fmt::format("@random({}", *origin.seed);
    if (origin.file != name) out += ", " + quote(origin.file);
    out += ')';
  } else if (large && !origin.file.empty()) {
    out += fmt::format("@file({}, {}, {})", quote(origin.file), origin.offset, origin.length);
  } else {
    append_contents(out, tensor);
  }
}

void append_tensor_bits(std::string& out, const Tensor& tensor) {
  append_type(out, tensor);
  append_contents(out, tensor);
}

Tensor read_tensor(TokenStream& tokens, std::string_view name, const FileResolver& files) {
  return TensorReader(tokens, name, files).read();
}

DType read_dtype(TokenStream& tokens) {
  const Token& next = tokens.peek();
  const auto dtype = next.kind == TokenKind::Identifier ? dtype_named(next.text) : std::nullopt;
  if (!dtype) tokens.expected("a dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool)");
  tokens.take();
  return *dtype;
}

}  // namespace anydim::ir
