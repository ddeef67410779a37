#include "bench/campaign/worker/replaced_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "codegen_cuda/device_text.h"
#include "ir/error.h"
#include "ir/hash.h"

namespace anydim::campaign {

using codegen_cuda::DevicePiece;

std::shared_ptr<const codegen_cuda::ReplacedText> read_replaced_text(
    const std::filesystem::path& folder) {
  auto replaced = std::make_shared<codegen_cuda::ReplacedText>();
  std::error_code fault;
  for (const auto& file : std::filesystem::directory_iterator(folder, fault)) {
    if (file.path().extension() != ".cuh") continue;
    const std::string name = file.path().stem().string();
    if (std::ranges::none_of(codegen_cuda::device_pieces,
                             [&](const DevicePiece& piece) { return piece.name == name; }))
      throw Error(ErrorKind::CommandLine,
                  "{}: kernels include no such piece; codegen_cuda/device has those that they do",
                  file.path().string());
    std::ifstream stream(file.path(), std::ios::binary);
    replaced->pieces[name].assign(std::istreambuf_iterator<char>(stream), {});
    if (!stream) throw Error(ErrorKind::CommandLine, "{}: cannot be read", file.path().string());
  }
  if (replaced->pieces.empty())
    throw Error(ErrorKind::CommandLine, "{}: no *.cuh is there{}", folder.string(),
                fault ? ": " + fault.message() : std::string());
  // It only tells versions that somebody tries from each other; a byte that no text has ends each.
  std::uint64_t hash = ir::fnv1a("");
  for (const auto& [name, text] : replaced->pieces)
    for (const std::string& part : {name, text}) hash = ir::fnv1a("\xff", ir::fnv1a(part, hash));
  replaced->identity = fmt::format("{:016x}", hash);
  return replaced;
}

}  // namespace anydim::campaign
