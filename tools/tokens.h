// Texts as token ids, and the batches that are made of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "api/anydim.h"

namespace anydim::tools {

using Text = std::vector<std::int64_t>;

// One JSON list of token ids a line. Throws Error{Malformed} naming the line: no list, no integer, negative, empty, no line at all.
std::vector<Text> read_tokens(const std::filesystem::path& file);

struct Batch {
  std::vector<std::size_t> texts;  // positions in the file
  std::int64_t longest = 0;        // tokens of the longest
};

struct BatchRule {
  std::optional<std::int64_t> texts;   // texts a batch; the last may have fewer
  std::optional<std::int64_t> tokens;  // padded tokens a batch, at least one text
  bool sorted = false;                 // by length, equal lengths in file order; else in file order
};
std::vector<Batch> make_batches(const std::vector<Text>& texts, const BatchRule& rule);

// Padded [texts, longest] tensors: ids (0 where padded), mask (1 where a token is), types (0).
NamedTensors batch_inputs(const std::vector<Text>& texts, const Batch& batch);

}  // namespace anydim::tools
