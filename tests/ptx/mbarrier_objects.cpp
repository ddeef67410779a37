#include "tests/ptx/mbarrier_objects.h"

#include <cstring>

#include <fmt/format.h>

namespace anydim::ptx {

namespace {

std::string check_word(const MbarrierObject& object) {
  std::uint64_t word = 0;
  std::memcpy(&word, object.word, sizeof word);
  if (word == encode_mbarrier(object.state)) return {};
  return "its word was overwritten";
}

}  // namespace

MbarrierObject& find_mbarrier(Warp& warp, Space space, std::uint64_t address, int lane,
                              AccessKind kind) {
  warp.access(kind, space, address, 8, 8, lane, true);
  return accessed_mbarrier(warp, space, address, lane);
}

MbarrierObject& accessed_mbarrier(Warp& warp, Space space, std::uint64_t address, int lane) {
  const SharedPlace place = shared_place(warp, space, address, lane);
  auto& objects = place.block->extension<MbarrierObjects>().objects;
  const auto found = objects.find(place.address);
  if (found == objects.end()) {
    warp.stop(FindingKind::InvalidUse, lane,
              fmt::format("there is no mbarrier at shared address {:#x}", place.address));
  }
  if (const std::string wrong = check_word(found->second); !wrong.empty()) {
    warp.stop(FindingKind::InvalidUse, lane,
              fmt::format("the mbarrier at {:#x} is damaged: {}", place.address, wrong));
  }
  return found->second;
}

MbarrierObject* mbarrier_for_copy(Block& block, std::uint32_t address, std::string& wrong) {
  auto& objects = block.extension<MbarrierObjects>().objects;
  const auto found = objects.find(address);
  if (found == objects.end()) {
    wrong = fmt::format("there is no mbarrier at shared address {:#x}", address);
    return nullptr;
  }
  wrong = check_word(found->second);
  if (wrong.empty()) return &found->second;
  wrong = fmt::format("the mbarrier at {:#x} is damaged: {}", address, wrong);
  return nullptr;
}

bool initialised_for_copies(const MbarrierObject& object, const Knowledge& seen, const Warp& issuer,
                            int lane) {
  const std::uint32_t component =
      object.author.base + static_cast<std::uint32_t>(object.author_lane);
  if (clock_of(seen.fenced, component) >= object.author_clock) return true;
  const bool own = issuer.actor.number == object.author.number && lane == object.author_lane;
  return object.fenced && (own || clock_of(seen.generic, component) >= object.author_clock);
}

std::string complete_transactions(Execution& execution, MbarrierObject& object,
                                  std::int64_t bytes) {
  return change_mbarrier(execution, object,
                         [&](Mbarrier& state) { return mbarrier_complete(state, bytes); });
}

void settle_mbarrier(Execution& execution, MbarrierObject& object, bool parity_before) {
  const std::uint64_t word = encode_mbarrier(object.state);
  std::memcpy(object.word, &word, sizeof word);
  ++execution.effects;
  if (object.state.parity == parity_before) return;
  std::uint32_t& phase = execution.actor_clock(object.actor);
  object.gathered.add(object.actor, 0, phase);
  object.released = object.gathered;
  ++phase;
  execution.notify();
}

}  // namespace anydim::ptx
