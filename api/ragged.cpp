#include "api/ragged.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"

namespace anydim {

namespace {

void check_offsets(const ir::Tensor& offsets) {
  if (offsets.dtype() != ir::DType::I64 || offsets.rank() != 1 || offsets.elements() == 0)
    throw Error(
        ErrorKind::Inputs,
        "offsets are {} ({}): expected i64 of rank 1 with one element more than there are texts",
        ir::name_of(offsets.dtype()), fmt::join(offsets.dims(), ", "));
  const auto values = offsets.as<std::int64_t>();
  if (values[0] != 0) throw Error(ErrorKind::Inputs, "offsets[0] is {}: expected 0", values[0]);
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] < values[i - 1])
      throw Error(ErrorKind::Inputs, "offsets[{}] is {}, after {}: offsets never decrease", i,
                  values[i], values[i - 1]);
}

void check_inputs(const RaggedProgram& program, const std::vector<ir::Tensor>& inputs,
                  std::int64_t tokens) {
  if (inputs.size() != program.inputs.size())
    throw Error(ErrorKind::Inputs,
                "a ragged call of this model takes {} inputs and offsets, got {} inputs",
                program.inputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputInfo& wanted = program.inputs[i];
    if (inputs[i].dtype() != wanted.dtype || inputs[i].rank() != wanted.dims.size())
      throw Error(ErrorKind::Inputs, "input '{}' does not fit: expected {}, got {} ({})",
                  wanted.name, to_string(wanted).substr(wanted.name.size() + 2),
                  ir::name_of(inputs[i].dtype()), fmt::join(inputs[i].dims(), ", "));
    if (program.input_rows[i] && inputs[i].dims()[0] != tokens)
      throw Error(ErrorKind::Inputs,
                  "offsets end with {}, but input '{}' has {} rows: expected as many", tokens,
                  wanted.name, inputs[i].dims()[0]);
  }
}

std::string because(const ir::SymbolInfo& info) {
  return info.reason.empty() ? "" : fmt::format(" ({})", info.reason);
}

}  // namespace

std::vector<ir::Tensor> ragged_call(const RaggedProgram& program,
                                    const std::vector<ir::Tensor>& inputs,
                                    const ir::Tensor& offsets) {
  check_offsets(offsets);
  const auto values = offsets.as<std::int64_t>();
  check_inputs(program, inputs, values.back());
  const auto texts = static_cast<std::int64_t>(values.size()) - 1;
  if (texts < program.texts.low || texts > program.texts.high)
    throw Error(ErrorKind::Inputs, "a call with {} texts: expected {} to {}{}", texts,
                program.texts.low, program.texts.high, because(program.texts));
  std::int64_t longest = std::max<std::int64_t>(program.length.low, 0);
  for (std::size_t t = 0; t + 1 < values.size(); ++t) {
    const std::int64_t length = values[t + 1] - values[t];
    if (length > program.length.high)
      throw Error(ErrorKind::Inputs, "text {} has {} tokens: expected at most {}{}", t, length,
                  program.length.high, because(program.length));
    if (length == 0 && program.first_rows)
      throw Error(ErrorKind::Inputs, "text {} has no token, and the model reads every text's first",
                  t);
    longest = std::max(longest, length);
  }
  // The length is an upper bound: it may be more than any text has, where the model takes only some
  // lengths.
  longest =
      (longest + program.length.multiple - 1) / program.length.multiple * program.length.multiple;
  std::vector<ir::Tensor> all = inputs;
  for (ir::Tensor& vector : runtime::ragged_vectors(program.vectors, values, longest))
    all.push_back(std::move(vector));
  return all;
}

}  // namespace anydim
