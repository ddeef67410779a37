// Batches out of a queue of texts, known by their lengths alone: what a server, a benchmark or a
// tuner that samples traffic calls with.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace anydim::runtime {

// What a batch costs of its limit.
enum class CountedTokens : std::uint8_t {
  Padded,  // texts times the longest: what a call over padded rows computes
  Useful,  // the sum of lengths: what a packed call computes
};

// At least one limit is set; where both are, a batch keeps both.
struct BatchRule {
  std::optional<std::int64_t> texts{};  // texts a batch
  // tokens a batch; a text longer than that is a batch of its own
  std::optional<std::int64_t> tokens{};
  CountedTokens counted = CountedTokens::Padded;
  bool sorted = false;  // the shortest text waiting first, equal lengths as they arrived; else as
                        // they arrived
};

struct Batch {
  std::vector<std::size_t> texts;  // numbers that push() gave
  std::int64_t longest = 0;        // tokens of the longest
  std::int64_t useful = 0;         // tokens of all
};

class Batcher {
 public:
  // Throws Error{Inputs} for a rule without limits or with one below 1.
  explicit Batcher(BatchRule rule);

  // A text at the queue's end; its number counts from 0. Throws Error{Inputs} for a length outside
  // [0, 2^31 - 1].
  std::size_t push(std::int64_t length);
  std::size_t waiting() const { return queue_.size(); }
  // The next texts in order, as many as the limits let in; nothing where none waits. A batch ends
  // at the first text that does not fit: none overtakes.
  std::optional<Batch> next();

 private:
  struct Waiting {
    std::int64_t length = 0;
    std::size_t number = 0;
  };
  struct Earlier {
    bool sorted = false;
    bool operator()(const Waiting& a, const Waiting& b) const;
  };

  BatchRule rule_;
  std::size_t pushed_ = 0;
  std::set<Waiting, Earlier> queue_;
};

// All of `lengths` in batches; texts are numbered as they stand there. Throws as Batcher does.
std::vector<Batch> make_batches(std::span<const std::int64_t> lengths, const BatchRule& rule);

}  // namespace anydim::runtime
