#include "tests/ptx/shadow.h"

#include <algorithm>

namespace anydim::ptx {
namespace {

constexpr std::size_t maximum_transitions = 1 << 17;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x9e37'79b9'7f4a'7c15U + (hash >> 29); }

bool is_own(const Author& author, const Agent& agent) {
  if (author.component == agent.issuer && author.clock >= agent.issuer_from && author.clock <= agent.issuer_to) return true;
  for (const Agent::Done& done : agent.done)
    if (author.component == done.component && author.clock <= done.clock) return true;
  return false;
}

}  // namespace

std::size_t AccessHistory::Hash::operator()(const Key& key) const {
  std::uint64_t hash = mix(key.author.component, key.author.clock);
  hash = mix(hash, static_cast<std::uint64_t>(key.author.instruction));
  hash = mix(hash, key.set);
  hash = mix(hash, reinterpret_cast<std::uintptr_t>(key.generic));
  return hash ^ (hash >> 32);
}

std::uint32_t AccessHistory::writer(const Author& author) {
  const auto [entry, is_new] = writers_.try_emplace(Key{author, nullptr, nullptr, 0}, static_cast<std::uint32_t>(authors_.size()));
  if (is_new) authors_.push_back(author);
  return entry->second;
}

std::uint32_t AccessHistory::add_reader(std::uint32_t set, const Agent& agent) {
  const Key key{agent.author, agent.seen->generic.get(), agent.seen->fenced.get(), set};
  if (const auto found = transitions_.find(key); found != transitions_.end()) return found->second;
  if (transitions_.size() > maximum_transitions) {  // only a memory of answers
    transitions_.clear();
    kept_.clear();
  }
  kept_.push_back(agent.seen->generic);
  kept_.push_back(agent.seen->fenced);
  std::vector<Author> readers;
  bool only_fence_missing = false, is_there = false;
  for (const Author& reader : sets_[set]) {
    is_there = is_there || reader == agent.author;
    if (!is_ordered(reader, false, agent, only_fence_missing)) readers.push_back(reader);
  }
  std::uint32_t result = set;
  if (!is_there || readers.size() + 1 < sets_[set].size()) {
    readers.push_back(agent.author);
    result = static_cast<std::uint32_t>(sets_.size());
    sets_.push_back(std::move(readers));
  }
  transitions_.emplace(key, result);
  return result;
}

bool is_ordered(const Author& author, bool author_writes, const Agent& agent, bool& only_fence_missing) {
  if (author.actor == 0) return true;
  const bool is_seen = is_own(author, agent) || clock_of(agent.seen->generic, author.component) >= author.clock;
  const bool needs_fence = author_writes && author.proxy == Proxy::Generic && agent.author.proxy == Proxy::Async;
  if (!needs_fence) return is_seen;
  const bool is_fenced = clock_of(agent.seen->fenced, author.component) >= author.clock;
  only_fence_missing = is_seen && !is_fenced;
  return is_fenced;
}

Shadow::Page& Shadow::page(std::size_t index) {
  std::unique_ptr<Page>& page = pages_[index];
  if (!page) page = std::make_unique<Page>();
  return *page;
}

bool Shadow::access(std::size_t offset, std::size_t bytes, AccessKind kind, const Agent& agent, AccessHistory& history,
                    Conflict& conflict) {
  const bool writes = kind != AccessKind::Read;
  const std::uint32_t self = writes ? history.writer(agent.author) : 0;
  // Neighbouring bytes mostly have the same history: what was found for one holds for the next.
  std::uint32_t checked_writer = AccessHistory::nobody;
  std::uint32_t checked_readers = 0, readers_after = 0;
  bool fine = true;
  const auto check = [&](const Author& author, bool author_writes, std::size_t byte) {
    bool only_fence_missing = false;
    if ((author.strong && agent.author.strong) || is_ordered(author, author_writes, agent, only_fence_missing)) return;
    if (fine) conflict = {author, author_writes, only_fence_missing, byte};
    fine = false;
  };
  for (std::size_t byte = offset; byte < offset + bytes;) {
    Page& cells = page(byte / page_bytes);
    const std::size_t end = std::min(offset + bytes, (byte / page_bytes + 1) * page_bytes);
    for (; byte < end; ++byte) {
      Cell& cell = cells[byte % page_bytes];
      if (cell.writer > AccessHistory::host && cell.writer != checked_writer) {
        check(history.author(cell.writer), true, byte);
        checked_writer = cell.writer;
      }
      if (writes) {
        if (cell.readers != 0 && cell.readers != checked_readers) {
          for (const Author& reader : history.readers(cell.readers)) check(reader, false, byte);
          checked_readers = cell.readers;
        }
        cell.writer = self;
        cell.readers = 0;
      } else {
        if (readers_after == 0 || cell.readers != checked_readers) {
          checked_readers = cell.readers;
          readers_after = history.add_reader(cell.readers, agent);
        }
        cell.readers = readers_after;
      }
    }
  }
  return fine;
}

bool Shadow::written(std::size_t offset, std::size_t bytes) const {
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    const std::unique_ptr<Page>& page = pages_[byte / page_bytes];
    if (!page || (*page)[byte % page_bytes].writer == AccessHistory::nobody) return false;
  }
  return true;
}

void Shadow::mark_written(std::size_t offset, std::size_t bytes) {
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) page(byte / page_bytes)[byte % page_bytes] = {AccessHistory::host, 0};
}

void Shadow::new_launch() {
  for (std::unique_ptr<Page>& page : pages_) {
    if (!page) continue;
    for (Cell& cell : *page) cell = {cell.writer == AccessHistory::nobody ? AccessHistory::nobody : AccessHistory::host, 0};
  }
}

}  // namespace anydim::ptx
