// Asynchronous work that is under way. An operation has two steps, reading its operands and writing
// its results, each of which may happen at any time after issue and before the wait that covers it
// returns. When that is, the machine's Timing decides.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <vector>

#include "tests/ptx/interpreter.h"

namespace anydim::ptx {

// What a wait names: all operations of one queue up to a number. A queue is, for example, one
// thread's bulk groups.
using QueueId = std::uint32_t;

struct PendingOperation {
  QueueId queue = 0;
  std::uint32_t number = 0;     // group within the queue
  bool in_order = false;        // steps of the queue's operations happen in order of issue (wgmma)
  std::function<void()> read;   // may be empty; takes operands into the operation's own storage
  std::function<void()> write;  // may be empty; stores the results, arrives at barriers
  const void* block = nullptr;  // the issuing block: its end finishes the operation
  std::string unfinished;  // a finding if the block ends before a wait has covered at least the
                           // reads; empty: no matter
  bool has_read = false;
  bool is_awaited = false;
};

class Agenda {
 public:
  Agenda(Timing timing, std::uint64_t seed) : timing_(timing), random_(seed) {}

  QueueId new_queue() { return ++queues_; }
  // Under ResultsLate the operands are read here and now.
  void issue(PendingOperation operation);

  // A wait: finishes (or, with reads_only, lets read) every operation of the queue with number <=
  // up_to.
  void force(QueueId queue, std::uint32_t up_to, bool reads_only = false);
  // Nothing else can run: one operation is finished. False where there is none.
  bool advance();
  // Timing::Random: perhaps one step of one operation. Called between instructions.
  void stir();
  // The end of a block: finishes its operations and gives the `unfinished` texts of those that
  // nothing waited for.
  std::vector<std::string> finish_block(const void* block);
  bool empty() const { return operations_.empty(); }
  std::uint64_t finished() const { return finished_; }

 private:
  using Position = std::list<PendingOperation>::iterator;
  void finish(Position position);
  void read(PendingOperation& operation);
  bool is_first_of_queue(Position position);

  Timing timing_;
  std::mt19937_64 random_;
  std::list<PendingOperation> operations_;
  QueueId queues_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace anydim::ptx
