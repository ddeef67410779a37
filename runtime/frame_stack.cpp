#include "runtime/frame_stack.h"

#include <algorithm>

namespace anydim::runtime {

namespace {

constexpr std::size_t alignment = 64;
// Chunks after the first have at least this size: calls that nest take little at a time, but often.
constexpr std::size_t least_chunk = std::size_t{64} << 10;

}  // namespace

std::byte* FrameStack::take(std::size_t bytes) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (memory_.apart()) {
    chunks_.resize(top_.chunk);
    chunks_.push_back({memory_.take(bytes), rounded});
    ++top_.chunk;
    top_.taken += rounded;
    return chunks_.back().memory.get();
  }
  while (top_.chunk < chunks_.size() && chunks_[top_.chunk].bytes - top_.used < rounded) {
    // Nothing lies in a lone chunk that is too small: what replaces it is larger.
    if (top_.taken == 0 && chunks_.size() == 1) chunks_.clear();
    else ++top_.chunk;
    top_.used = 0;
  }
  if (top_.chunk == chunks_.size()) {
    const std::size_t least = chunks_.empty() ? most_ : std::max(least_chunk, top_.taken);
    const std::size_t wanted = std::max(rounded, least);
    chunks_.push_back({memory_.take(wanted), wanted});
    top_.used = 0;
  }
  std::byte* place = chunks_[top_.chunk].memory.get() + top_.used;
  top_.used += rounded;
  top_.taken += rounded;
  most_ = std::max(most_, top_.taken);
  return place;
}

void FrameStack::clear() {
  if (chunks_.size() > 1 || memory_.apart()) chunks_.clear();
  top_ = {};
}

}  // namespace anydim::runtime
