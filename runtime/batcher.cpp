#include "runtime/batcher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

// Dims count rows in 31 bits unless a model says otherwise; below this no product of a batch
// overflows.
constexpr std::int64_t longest_text = std::numeric_limits<std::int32_t>::max();

}  // namespace

bool Batcher::Earlier::operator()(const Waiting& a, const Waiting& b) const {
  if (sorted && a.length != b.length) return a.length < b.length;
  return a.number < b.number;
}

Batcher::Batcher(BatchRule rule) : rule_(rule), queue_(Earlier{rule.sorted}) {
  if (!rule.texts && !rule.tokens)
    throw Error(ErrorKind::Inputs, "a batch needs a limit: texts, tokens or both");
  for (const auto& [limit, what] :
       {std::pair(rule.texts, "texts"), std::pair(rule.tokens, "tokens")}) {
    if (limit && *limit < 1)
      throw Error(ErrorKind::Inputs, "a batch has at most {} {}: give a limit of at least 1",
                  *limit, what);
  }
}

std::size_t Batcher::push(std::int64_t length) {
  if (length < 0 || length > longest_text)
    throw Error(ErrorKind::Inputs, "text {} has {} tokens: expected 0 to {}", pushed_, length,
                longest_text);
  queue_.insert(Waiting{length, pushed_});
  return pushed_++;
}

std::optional<Batch> Batcher::next() {
  if (queue_.empty()) return std::nullopt;
  Batch batch;
  while (!queue_.empty()) {
    const Waiting text = *queue_.begin();
    const auto count = static_cast<std::int64_t>(batch.texts.size()) + 1;
    const std::int64_t longest = std::max(batch.longest, text.length),
                       useful = batch.useful + text.length;
    if (count > 1) {
      if (rule_.texts && count > *rule_.texts) break;
      if (rule_.tokens &&
          (rule_.counted == CountedTokens::Useful ? useful : count * longest) > *rule_.tokens)
        break;
    }
    batch.texts.push_back(text.number);
    batch.longest = longest;
    batch.useful = useful;
    queue_.erase(queue_.begin());
  }
  return batch;
}

std::vector<Batch> make_batches(std::span<const std::int64_t> lengths, const BatchRule& rule) {
  Batcher batcher(rule);
  for (const std::int64_t length : lengths) batcher.push(length);
  std::vector<Batch> batches;
  while (auto batch = batcher.next()) batches.push_back(std::move(*batch));
  return batches;
}

}  // namespace anydim::runtime
