#include "tests/ptx/agenda.h"

#include <iterator>
#include <utility>

namespace anydim::ptx {

void Agenda::read(PendingOperation& operation) {
  if (operation.has_read) return;
  operation.has_read = true;
  if (operation.read) operation.read();
}

void Agenda::finish(Position position) {
  PendingOperation operation = std::move(*position);
  operations_.erase(position);
  read(operation);
  if (operation.write) operation.write();
  ++finished_;
}

void Agenda::issue(PendingOperation operation) {
  if (timing_ == Timing::ResultsLate && !operation.in_order) read(operation);
  operations_.push_back(std::move(operation));
}

void Agenda::force(QueueId queue, std::uint32_t up_to, bool reads_only) {
  for (Position position = operations_.begin(); position != operations_.end();) {
    const Position next = std::next(position);
    if (position->queue == queue && position->number <= up_to) {
      position->is_awaited = true;
      if (reads_only) read(*position);
      else finish(position);
    }
    position = next;
  }
}

bool Agenda::is_first_of_queue(Position position) {
  for (Position other = operations_.begin(); other != position; ++other)
    if (other->queue == position->queue) return false;
  return true;
}

bool Agenda::advance() {
  if (operations_.empty()) return false;
  Position position = operations_.begin();
  if (timing_ == Timing::Random)
    std::advance(position, static_cast<std::ptrdiff_t>(random_() % operations_.size()));
  while (position->in_order && !is_first_of_queue(position)) --position;
  finish(position);
  return true;
}

void Agenda::stir() {
  if (timing_ != Timing::Random || operations_.empty() || random_() % 16 != 0) return;
  Position position = operations_.begin();
  std::advance(position, static_cast<std::ptrdiff_t>(random_() % operations_.size()));
  if (position->in_order && !is_first_of_queue(position)) return;
  if (!position->has_read) read(*position);
  else finish(position);
}

std::vector<std::string> Agenda::finish_block(const void* block) {
  std::vector<std::string> unfinished;
  for (Position position = operations_.begin(); position != operations_.end();) {
    const Position next = std::next(position);
    if (position->block == block) {
      if (!position->is_awaited && !position->unfinished.empty())
        unfinished.push_back(position->unfinished);
      finish(position);
    }
    position = next;
  }
  return unfinished;
}

}  // namespace anydim::ptx
