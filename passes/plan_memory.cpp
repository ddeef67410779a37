#include "passes/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace anydim::passes {

using namespace ir;

namespace {

struct Slot {
  Dim bytes;
  std::int64_t last = 0;
};

// What is proved of two sizes is asked again for every value that has them, of which a model has
// few.
class Sizes {
 public:
  explicit Sizes(const SymbolTable& symbols) : symbols_(symbols) {}
  bool less_equal(const Dim& a, const Dim& b) {
    return a == b || proved(not_larger_, a, b, prove_less_equal);
  }
  bool less(const Dim& a, const Dim& b) { return a != b && proved(smaller_, a, b, prove_less); }

 private:
  using Proved = std::map<std::pair<Dim, Dim>, bool>;
  bool proved(Proved& known, const Dim& a, const Dim& b,
              Proof (*prove)(const Dim&, const Dim&, const SymbolTable&)) const {
    const auto [found, fresh] = known.try_emplace({a, b});
    if (fresh) found->second = prove(a, b, symbols_) == Proof::Yes;
    return found->second;
  }

  const SymbolTable& symbols_;
  Proved not_larger_, smaller_;
};

Dim aligned(const Dim& bytes, const SymbolTable& symbols) {
  if (divisor(bytes, symbols) % arena_alignment == 0) return bytes;
  return ceil_div(bytes, arena_alignment) * arena_alignment;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, const SymbolTable& symbols) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].first != lifetimes[b].first ? lifetimes[a].first < lifetimes[b].first
                                                    : a < b;
  });

  Sizes sizes(symbols);
  std::vector<Slot> slots;
  std::vector<std::size_t> slot_of(lifetimes.size());
  // The slot of a value that ends where this one begins, and in whose place it may be written.
  const auto overwritten = [&](const Lifetime& value) {
    for (const std::size_t old : value.overwrites) {
      const Lifetime& other = lifetimes[old];
      if (other.first < value.first && other.last == value.first && other.bytes == value.bytes &&
          slots[slot_of[old]].last == other.last)
        return slot_of[old];
    }
    return slots.size();
  };
  for (std::size_t i : order) {
    const Lifetime& value = lifetimes[i];
    if (const std::size_t slot = overwritten(value); slot != slots.size()) {
      slots[slot].last = value.last;
      slot_of[i] = slot;
      continue;
    }
    std::size_t fits = slots.size(), grows = slots.size();
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (slots[s].last >= value.first) continue;
      if (sizes.less_equal(value.bytes, slots[s].bytes)) {
        if (fits == slots.size() || sizes.less(slots[s].bytes, slots[fits].bytes)) fits = s;
      } else if (sizes.less_equal(slots[s].bytes, value.bytes)) {
        if (grows == slots.size() || sizes.less(slots[grows].bytes, slots[s].bytes)) grows = s;
      }
    }
    std::size_t chosen = fits != slots.size() ? fits : grows;
    if (chosen == slots.size()) slots.push_back({value.bytes, value.last});
    else if (chosen == grows && fits == slots.size()) slots[chosen].bytes = value.bytes;
    slots[chosen].last = value.last;
    slot_of[i] = chosen;
  }

  MemoryPlan plan;
  std::vector<Dim> offsets;
  for (const Slot& slot : slots) {
    offsets.push_back(plan.total);
    plan.total = plan.total + aligned(slot.bytes, symbols);
  }
  for (std::size_t slot : slot_of) plan.offsets.push_back(offsets[slot]);
  return plan;
}

}  // namespace anydim::passes
