#include "api/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <span>
#include <system_error>

#include "api/npy.h"
#include "ir/file_descriptor.h"
#include "tuner/text_file.h"

namespace anydim {

namespace {

Error cannot_write(const std::filesystem::path& path, int reason) {
  return Error(ErrorKind::Write, "{}: cannot be written ({})", path.string(),
               std::generic_category().message(reason));
}

// Removes what was begun unless told that all went well.
struct TemporaryFiles {
  std::vector<std::filesystem::path> paths;
  bool kept = false;
  ~TemporaryFiles() {
    if (kept) return;
    for (const auto& path : paths) unlink(path.c_str());
  }
};

// `meant` is the name that the file will have, for messages.
void write_file(const std::filesystem::path& path, const std::filesystem::path& meant,
                const ir::Tensor& tensor) {
  const std::string header = npy_header(tensor);
  ir::FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const bool written = file && ir::write_all(file, std::as_bytes(std::span(header))) &&
                       ir::write_all(file, tensor.bytes());
  if (!written || !file.close_checked()) throw cannot_write(meant, errno);
}

}  // namespace

std::string output_file_name(const std::string& output) {
  std::string name = output;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return name + ".npy";
}

void check_output_names(const std::vector<std::string>& outputs) {
  std::map<std::string, std::string> taken;
  for (const std::string& output : outputs) {
    const auto [found, first] = taken.emplace(output_file_name(output), output);
    if (!first) {
      throw Error(
          ErrorKind::CommandLine,
          "outputs '{}' and '{}' would both be written to {}; choose one of them with --outputs",
          found->second, output, found->first);
    }
  }
}

std::vector<std::filesystem::path> write_outputs(const std::filesystem::path& folder,
                                                 const std::vector<std::string>& names,
                                                 const std::vector<ir::Tensor>& tensors) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw cannot_write(folder, error.value());
  TemporaryFiles temporary;
  std::vector<std::filesystem::path> paths;
  for (std::size_t i = 0; i < names.size(); ++i) {
    paths.push_back(folder / output_file_name(names[i]));
    temporary.paths.push_back(folder /
                              fmt::format(".{}.{}.partial", output_file_name(names[i]), getpid()));
    write_file(temporary.paths.back(), paths.back(), tensors[i]);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::filesystem::rename(temporary.paths[i], paths[i], error);
    if (error) throw cannot_write(paths[i], error.value());
  }
  temporary.kept = true;
  return paths;
}

void require_writable(const std::filesystem::path& file) {
  if (tuner::replaceable_file_exists(file)) return;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) throw tuner::cannot_write(file);
}

}  // namespace anydim
