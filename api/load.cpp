#include "api/load.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>

#include "ir/error.h"
#include "ir/text/parse.h"
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

bool reads_like_text(std::string_view start) {
  // Every ONNX model begins with a small tag byte and soon has a zero or a control character; the
  // text form has neither.
  return !start.empty() && std::ranges::none_of(start, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 32 && c != '\n' && c != '\t' && c != '\r';
  });
}

constexpr std::size_t read_to_tell = 512;

bool begins_like_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  char start[read_to_tell];
  stream.read(start, sizeof start);
  return reads_like_text({start, static_cast<std::size_t>(stream.gcount())});
}

bool is_text_form(const std::filesystem::path& file) {
  const std::string suffix = file.extension().string();
  if (suffix == ".onnx") return false;
  return suffix == ".anydim" || suffix == ".txt" || begins_like_text(file);
}

void require_readable(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status))
    throw Error(ErrorKind::Malformed, "{}: there is no such file", file.string());
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::Malformed, "{}: this is no regular file", file.string());
  errno = 0;
  if (!std::ifstream(file, std::ios::binary)) {
    throw Error(ErrorKind::Malformed, "{}: cannot be opened ({})", file.string(),
                std::generic_category().message(errno));
  }
}

void require_size_of_text(std::uintmax_t bytes, std::string_view name) {
  if (bytes > largest_text)
    throw Error(ErrorKind::Malformed,
                "{}: a text of more than {} bytes is no module; large constants belong in files",
                name, largest_text);
}

ir::Module parse_text(std::string_view text, const std::string& name,
                      [[maybe_unused]] const std::optional<std::filesystem::path>& folder) {
  ir::ParseOptions options;
  options.source_name = name;
#ifdef ANYDIM_ONNX
  options.files = [data = std::make_shared<frontends::ExternalData>(folder)](
                      const std::string& file, std::int64_t offset, std::int64_t length,
                      ir::DType dtype, std::vector<std::int64_t> dims) {
    return data->load(file, dtype, std::move(dims), {file, offset, length});
  };
#endif
  ir::Module module = ir::parse(text, options);
  ir::verify(module,
             {.kind = ErrorKind::Malformed, .types_inferred = false, .stage = options.source_name});
  return module;
}

std::string read_text(const std::filesystem::path& file) {
  require_size_of_text(std::filesystem::file_size(file), file.string());
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

ir::Module load_text(const std::filesystem::path& file) {
  return parse_text(read_text(file), file.filename().string(),
                    file.has_parent_path() ? file.parent_path() : std::filesystem::path("."));
}

}  // namespace

ir::Module load_model(const std::filesystem::path& file) {
  require_readable(file);
  if (is_text_form(file)) return load_text(file);
#ifdef ANYDIM_ONNX
  return frontends::read_onnx(file);
#else
  throw Error(ErrorKind::Resource, "{}: this build has no ONNX reader; give a module in text form",
              file.string());
#endif
}

std::optional<std::string> load_text_file(const std::filesystem::path& file) {
  require_readable(file);
  return is_text_form(file) ? std::optional(read_text(file)) : std::nullopt;
}

ir::Module load_model_bytes(std::span<const std::byte> bytes,
                            const std::optional<std::filesystem::path>& folder) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (reads_like_text(text.substr(0, read_to_tell))) {
    require_size_of_text(text.size(), "the model");
    return parse_text(text, "the model", folder);
  }
#ifdef ANYDIM_ONNX
  return frontends::read_onnx(bytes, folder);
#else
  throw Error(ErrorKind::Resource,
              "the model: this build has no ONNX reader; give a module in text form");
#endif
}

ir::Tensor load_onnx_tensor(const std::filesystem::path& file) {
  require_readable(file);
#ifdef ANYDIM_ONNX
  return frontends::read_onnx_tensor(file);
#else
  throw Error(ErrorKind::Resource, "{}: this build reads no ONNX tensors; give a .npy file",
              file.string());
#endif
}

}  // namespace anydim
