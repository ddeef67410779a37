#include "runtime/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ir/number_text.h"

namespace anydim::runtime {

namespace {

constexpr int word_bits = 8 * sizeof(unsigned long);
constexpr int most_nodes = 1024;  // that the kernel may be built for

std::optional<int> number(std::string_view text) {
  const auto value = ir::parsed_number<int>(text);
  return value && *value >= 0 && *value < most_nodes ? value : std::nullopt;
}

// "0-1,4", as the system lists nodes; empty where it isn't that.
std::vector<int> listed_nodes(std::string_view text) {
  std::vector<int> nodes;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash)),
               last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last) return {};
    for (int node = *first; node <= *last; ++node) nodes.push_back(node);
  }
  return nodes;
}

int policy_of_thread() {
  int mode = MPOL_DEFAULT;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) == 0 ? mode : -1;
}

bool interleave(std::byte* begin, std::size_t bytes, std::span<const unsigned long> nodes) {
  // The call takes one bit less than it is told of.
  const unsigned long bits = nodes.size() * word_bits + 1;
  return syscall(SYS_mbind, begin, bytes, MPOL_INTERLEAVE, nodes.data(), bits, 0U) == 0;
}

}  // namespace

NodeSystem this_system() {
  return {
      .folder = "/sys/devices/system/node", .policy = policy_of_thread, .interleave = interleave};
}

MemoryNodes::MemoryNodes(NodeSystem system) : system_(std::move(system)) {
  std::string line;
  std::ifstream file(system_.folder / "has_memory");
  if (std::getline(file, line)) nodes_ = listed_nodes(line);
  if (nodes_.empty()) nodes_ = {0};
}

void MemoryNodes::spread(std::byte* begin, std::size_t bytes) const {
  if (count() < 2) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page,
                       last = (address + bytes) / page * page;
  if (first >= last || system_.policy() != MPOL_DEFAULT) return;
  std::vector<unsigned long> words(
      static_cast<std::size_t>(std::ranges::max(nodes_) / word_bits + 1));
  for (const int node : nodes_)
    words[static_cast<std::size_t>(node / word_bits)] |= 1UL << (node % word_bits);
  system_.interleave(begin + (first - address), last - first, words);
}

}  // namespace anydim::runtime
