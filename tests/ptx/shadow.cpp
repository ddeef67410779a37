#include "tests/ptx/shadow.h"

#include <algorithm>

namespace anydim::ptx {
namespace {

constexpr std::size_t answers = 1 << 14;

std::size_t answer_place(std::uint32_t set, const Author& author) {
  const std::uint64_t key = (std::uint64_t{set} << 32 | author.component) ^
                            std::uint64_t{author.clock} << 16 ^
                            static_cast<std::uint64_t>(author.instruction) << 40;
  return static_cast<std::size_t>((key * 0x9e37'79b9'7f4a'7c15U) >> 50);
}

bool is_own(const Author& author, const Agent& agent) {
  if (author.component == agent.issuer && author.clock >= agent.issuer_from &&
      author.clock <= agent.issuer_to)
    return true;
  for (const Agent::Done& done : agent.done)
    if (author.component == done.component && author.clock <= done.clock) return true;
  return false;
}

}  // namespace

AccessHistory::AccessHistory() : authors_(2), readers_(1), answers_(answers) {}

std::uint32_t AccessHistory::writer(const Author& author) {
  if (last_author_.size() <= author.component) last_author_.resize(author.component + 1);
  std::uint32_t& last = last_author_[author.component];
  if (last == nobody || !(authors_[last] == author)) {
    last = static_cast<std::uint32_t>(authors_.size());
    authors_.push_back(author);
  }
  return last;
}

std::uint32_t AccessHistory::add_reader(std::uint32_t set, const Agent& agent) {
  Answer& answer = answers_[answer_place(set, agent.author)];
  if (answer.result != 0 && answer.set == set && answer.author == agent.author &&
      answer.generic == agent.seen->generic && answer.fenced == agent.seen->fenced)
    return answer.result;
  answer = {agent.author, agent.seen->generic, agent.seen->fenced, set, set};
  bool only_fence_missing = false, is_there = false;
  std::uint32_t unchanged = set;      // behind the last one that goes
  std::vector<std::uint32_t> stay{};  // before it
  std::size_t stay_before_last = 0;
  for (std::uint32_t at = set; at != 0; at = readers_[at].others) {
    const Author& reader = readers_[at].author;
    if (reader == agent.author) is_there = true;
    if (reader == agent.author || !is_ordered(reader, false, agent, only_fence_missing)) {
      stay.push_back(at);
    } else {
      unchanged = readers_[at].others;
      stay_before_last = stay.size();
    }
  }
  for (std::size_t i = stay_before_last; i > 0; --i)
    unchanged = push_reader(readers_[stay[i - 1]].author, unchanged);
  answer.result = is_there ? unchanged : push_reader(agent.author, unchanged);
  return answer.result;
}

std::uint32_t AccessHistory::push_reader(Author author, std::uint32_t others) {
  readers_.push_back({author, others});
  return static_cast<std::uint32_t>(readers_.size() - 1);
}

bool is_ordered(const Author& author, bool author_writes, const Agent& agent,
                bool& only_fence_missing) {
  if (author.actor == 0) return true;
  const bool is_seen =
      is_own(author, agent) || clock_of(agent.seen->generic, author.component) >= author.clock;
  const bool needs_fence =
      author_writes && author.proxy == Proxy::Generic && agent.author.proxy == Proxy::Async;
  if (!needs_fence) return is_seen;
  const bool is_fenced = clock_of(agent.seen->fenced, author.component) >= author.clock;
  only_fence_missing = is_seen && !is_fenced;
  return is_seen && is_fenced;
}

Shadow::Page& Shadow::page(std::size_t index) {
  std::unique_ptr<Page>& page = pages_[index];
  if (!page) page = std::make_unique<Page>();
  return *page;
}

bool Shadow::access(std::size_t offset, std::size_t bytes, AccessKind kind, const Agent& agent,
                    AccessHistory& history, Conflict& conflict) {
  const bool writes = kind != AccessKind::Read;
  const std::uint32_t self = writes ? history.writer(agent.author) : 0;
  // Neighbouring bytes mostly have the same history: what was found for one holds for the next.
  std::uint32_t checked_writer = AccessHistory::nobody;
  std::uint32_t checked_readers = 0, readers_after = 0;
  bool fine = true;
  const auto check = [&](const Author& author, bool author_writes, std::size_t byte) {
    bool only_fence_missing = false;
    if ((author.strong && agent.author.strong) ||
        is_ordered(author, author_writes, agent, only_fence_missing))
      return;
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
          history.for_readers(cell.readers,
                              [&](const Author& reader) { check(reader, false, byte); });
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

bool Shadow::all_ordered(const Agent& agent, std::span<const Actor> own,
                         const AccessHistory& history, Conflict& conflict) const {
  bool fine = true, only_fence_missing = false;
  const auto check = [&](const Author& author, bool writes, std::size_t byte) {
    const bool is_own =
        std::ranges::any_of(own, [&](const Actor& actor) { return actor.number == author.actor; });
    if (!fine || is_own || is_ordered(author, writes, agent, only_fence_missing)) return;
    conflict = {author, writes, false, byte};
    fine = false;
  };
  Cell checked;
  for (std::size_t index = 0; index < pages_.size(); ++index) {
    if (!pages_[index]) continue;
    for (std::size_t i = 0; i < page_bytes; ++i) {
      const Cell& cell = (*pages_[index])[i];
      if (cell.writer > AccessHistory::host && cell.writer != checked.writer)
        check(history.author(cell.writer), true, index * page_bytes + i);
      if (cell.readers != checked.readers)
        history.for_readers(cell.readers, [&](const Author& reader) {
          check(reader, false, index * page_bytes + i);
        });
      checked = cell;
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
  for (std::size_t byte = offset; byte < offset + bytes; ++byte)
    page(byte / page_bytes)[byte % page_bytes] = {AccessHistory::host, 0};
}

void Shadow::new_launch() {
  for (std::unique_ptr<Page>& page : pages_) {
    if (!page) continue;
    for (Cell& cell : *page)
      cell = {cell.writer == AccessHistory::nobody ? AccessHistory::nobody : AccessHistory::host,
              0};
  }
}

}  // namespace anydim::ptx
