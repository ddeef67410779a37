#include "codegen_cuda/replaced_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "codegen_cuda/device_text.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

// 64-bit FNV-1a: only to tell versions that somebody tries from each other.
std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash ^ 0xff) * 0x100000001b3;  // where one text ends
}

}  // namespace

std::shared_ptr<const ReplacedText> read_replaced_text(const std::filesystem::path& folder) {
  auto replaced = std::make_shared<ReplacedText>();
  std::error_code fault;
  for (const auto& file : std::filesystem::directory_iterator(folder, fault)) {
    if (file.path().extension() != ".cuh") continue;
    const std::string name = file.path().stem().string();
    if (std::ranges::none_of(device_pieces,
                             [&](const DevicePiece& piece) { return piece.name == name; }))
      throw Error(ErrorKind::CommandLine,
                  fmt::format("{}: kernels include no such piece; codegen_cuda/device has those "
                              "that they do",
                              file.path().string()));
    std::ifstream stream(file.path(), std::ios::binary);
    replaced->pieces[name].assign(std::istreambuf_iterator<char>(stream), {});
    if (!stream)
      throw Error(ErrorKind::CommandLine, fmt::format("{}: cannot be read", file.path().string()));
  }
  if (replaced->pieces.empty())
    throw Error(ErrorKind::CommandLine,
                fmt::format("{}: no *.cuh is there{}", folder.string(),
                            fault ? ": " + fault.message() : std::string()));
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& [name, text] : replaced->pieces) hash = mixed(mixed(hash, name), text);
  replaced->identity = fmt::format("{:016x}", hash);
  return replaced;
}

}  // namespace anydim::codegen_cuda
