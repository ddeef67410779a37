// Texts as token ids, and the inputs that a batch of them makes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "api/anydim.h"

namespace anydim::tools {

using Text = std::vector<std::int64_t>;

// One JSON list of token ids a line. Throws Error{Malformed} naming the line: no list, no integer,
// negative, empty, no line at all.
std::vector<Text> read_tokens(const std::filesystem::path& file);

std::vector<std::int64_t> lengths_of(const std::vector<Text>& texts);

// Padded [texts, longest] tensors: ids (0 where padded), mask (1 where a token is), types (0).
NamedTensors batch_inputs(const std::vector<Text>& texts, const runtime::Batch& batch);

// The same end to end, without a mask: ids and types [tokens], and where each text begins.
struct RaggedInputs {
  NamedTensors tensors;
  ir::Tensor offsets;
};
RaggedInputs ragged_inputs(const std::vector<Text>& texts, const runtime::Batch& batch);

}  // namespace anydim::tools
