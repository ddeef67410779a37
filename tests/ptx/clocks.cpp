#include "tests/ptx/clocks.h"

#include <algorithm>

namespace anydim::ptx {

SharedClocks join(const SharedClocks& a, const SharedClocks& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  const ClockSet& longer = a->size() >= b->size() ? *a : *b;
  const ClockSet& shorter = a->size() >= b->size() ? *b : *a;
  const std::size_t common = shorter.size();
  std::uint32_t longer_lacks = 0,
                shorter_lacks = 0;  // whether any component is less than the other's; sums, so that
                                    // the loop is one of vectors
  for (std::size_t i = 0; i < common; ++i) {
    longer_lacks |= longer[i] < shorter[i] ? 1 : 0;
    shorter_lacks |= shorter[i] < longer[i] ? 1 : 0;
  }
  const bool longer_covers = longer_lacks == 0;
  const bool shorter_covers =
      shorter_lacks == 0 &&
      std::all_of(longer.begin() + static_cast<std::ptrdiff_t>(common), longer.end(),
                  [](std::uint32_t clock) { return clock == 0; });
  if (longer_covers) return &longer == a.get() ? a : b;
  if (shorter_covers) return &shorter == a.get() ? a : b;
  auto result = std::make_shared<ClockSet>(longer);
  for (std::size_t i = 0; i < shorter.size(); ++i) (*result)[i] = std::max(longer[i], shorter[i]);
  return result;
}

SharedClocks with(const SharedClocks& a, std::uint32_t component, std::uint32_t clock) {
  if (clock_of(a, component) >= clock) return a;
  auto result = a ? std::make_shared<ClockSet>(*a) : std::make_shared<ClockSet>();
  if (result->size() <= component) result->resize(component + 1);
  (*result)[component] = clock;
  return result;
}

void Knowledge::join(const Knowledge& other) {
  generic = ptx::join(generic, other.generic);
  fenced = ptx::join(fenced, other.fenced);
}

void Knowledge::add(const Actor& actor, int lane, std::uint32_t clock) {
  generic = with(generic, actor.base + static_cast<std::uint32_t>(lane), clock);
}

}  // namespace anydim::ptx
