#include "api/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>

#include "ir/error.h"
#include "ir/parse.h"
#include "ir/verify.h"

#ifdef ANYDIM_ONNX
#include "frontends/external_data.h"
#include "frontends/onnx.h"
#include "frontends/onnx_tensor.h"
#endif

namespace anydim {

namespace {

// A text model is read by people; anything larger than this is something else.
constexpr std::uintmax_t largest_text = std::uintmax_t{256} << 20;

bool begins_like_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  char start[512];
  stream.read(start, sizeof start);
  const auto count = stream.gcount();
  // Every ONNX model begins with a small tag byte and soon has a zero or a control character; the text form has neither.
  return count > 0 && std::none_of(start, start + count, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte < 32 && c != '\n' && c != '\t' && c != '\r';
         });
}

bool is_text_form(const std::filesystem::path& file) {
  const std::string suffix = file.extension().string();
  if (suffix == ".onnx") return false;
  return suffix == ".anydim" || suffix == ".txt" || begins_like_text(file);
}

void require_readable(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw Error(ErrorKind::Malformed, fmt::format("{}: there is no such file", file.string()));
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::Malformed, fmt::format("{}: this is no regular file", file.string()));
  errno = 0;
  if (!std::ifstream(file, std::ios::binary)) {
    throw Error(ErrorKind::Malformed, fmt::format("{}: cannot be opened ({})", file.string(), std::generic_category().message(errno)));
  }
}

ir::Module load_text(const std::filesystem::path& file) {
  if (std::filesystem::file_size(file) > largest_text) {
    throw Error(ErrorKind::Malformed,
                fmt::format("{}: a text of more than {} bytes is no module; large constants belong in files", file.string(), largest_text));
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  ir::ParseOptions options;
  options.source_name = file.filename().string();
#ifdef ANYDIM_ONNX
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  options.files = [data = std::make_shared<frontends::ExternalData>(folder)](
                      const std::string& name, std::int64_t offset, std::int64_t length, ir::DType dtype, std::vector<std::int64_t> dims) {
    return data->load(name, dtype, std::move(dims), {name, offset, length});
  };
#endif
  ir::Module module = ir::parse(text, options);
  ir::verify(module, {.kind = ErrorKind::Malformed, .types_inferred = false, .stage = options.source_name});
  return module;
}

}  // namespace

ir::Module load_model(const std::filesystem::path& file) {
  require_readable(file);
  if (is_text_form(file)) return load_text(file);
#ifdef ANYDIM_ONNX
  return frontends::read_onnx(file);
#else
  throw Error(ErrorKind::Resource, fmt::format("{}: this build has no ONNX reader; give a module in text form", file.string()));
#endif
}

ir::Tensor load_onnx_tensor(const std::filesystem::path& file) {
  require_readable(file);
#ifdef ANYDIM_ONNX
  return frontends::read_onnx_tensor(file);
#else
  throw Error(ErrorKind::Resource, fmt::format("{}: this build reads no ONNX tensors; give a .npy file", file.string()));
#endif
}

}  // namespace anydim
