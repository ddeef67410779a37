#include "tools/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace anydim::tools {

namespace {

Text read_line(const std::string& line, const std::string& where) {
  const auto malformed = [&](const std::string& why) {
    return Error(ErrorKind::Malformed, "{}: {}", where, why);
  };
  const nlohmann::json list = tuner::parse_json(line);
  if (!list.is_array()) throw malformed("expected a JSON list of token ids, e.g. [101, 7592, 102]");
  if (list.empty()) throw malformed("a text has at least one token");
  Text text;
  for (const nlohmann::json& token : list) {
    if (!token.is_number_integer() || token.get<std::int64_t>() < 0)
      throw malformed(fmt::format("{} is no token id", tuner::printable_json(token)));
    text.push_back(token.get<std::int64_t>());
  }
  return text;
}

}  // namespace

std::vector<Text> read_tokens(const std::filesystem::path& file) {
  std::istringstream stream(tuner::read_text_file(file));
  std::vector<Text> texts;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    texts.push_back(read_line(line, fmt::format("{}:{}", file.string(), number)));
  }
  if (texts.empty()) throw Error(ErrorKind::Malformed, "{}: there is no text in it", file.string());
  return texts;
}

std::vector<std::int64_t> lengths_of(const std::vector<Text>& texts) {
  std::vector<std::int64_t> lengths;
  for (const Text& text : texts) lengths.push_back(static_cast<std::int64_t>(text.size()));
  return lengths;
}

NamedTensors batch_inputs(const std::vector<Text>& texts, const runtime::Batch& batch) {
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(batch.texts.size()),
                                       batch.longest};
  ir::Tensor ids(ir::DType::I64, dims), mask(ir::DType::I64, dims);
  const ir::Tensor types(ir::DType::I64, dims);
  const auto longest = static_cast<std::size_t>(batch.longest);
  for (std::size_t row = 0; row < batch.texts.size(); ++row) {
    const Text& text = texts[batch.texts[row]];
    std::ranges::copy(
        text, ids.mutable_as<std::int64_t>().begin() + static_cast<std::ptrdiff_t>(row * longest));
    std::fill_n(
        mask.mutable_as<std::int64_t>().begin() + static_cast<std::ptrdiff_t>(row * longest),
        text.size(), 1);
  }
  return {{"input_ids", ids}, {"attention_mask", mask}, {"token_type_ids", types}};
}

RaggedInputs ragged_inputs(const std::vector<Text>& texts, const runtime::Batch& batch) {
  const std::vector<std::int64_t> dims{batch.useful};
  ir::Tensor ids(ir::DType::I64, dims);
  std::vector<std::int64_t> offsets{0};
  for (const std::size_t number : batch.texts) {
    std::ranges::copy(texts[number], ids.mutable_as<std::int64_t>().begin() + offsets.back());
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(texts[number].size()));
  }
  const std::vector<std::int64_t> offset_dims{static_cast<std::int64_t>(offsets.size())};
  return {{{"input_ids", ids}, {"token_type_ids", ir::Tensor(ir::DType::I64, dims)}},
          ir::Tensor::of<std::int64_t>(ir::DType::I64, offset_dims, offsets)};
}

}  // namespace anydim::tools
