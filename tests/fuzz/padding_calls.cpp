// The calls that a padding model is held to.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/fuzz/padding_model.h"

namespace anydim::tests {

using namespace ir;

namespace {

constexpr std::int64_t batch = 3, length = 6;

void set_entry(Tensor& mask, std::int64_t at, std::int64_t entry) {
  if (is_float(mask.dtype())) mask.set_real(at, static_cast<double>(entry));
  else mask.set_integer(at, entry);
}

}  // namespace

std::vector<PaddingCall> padding_calls(const PaddingModel& model, std::uint64_t seed) {
  std::mt19937_64 random(seed + 1000003);
  const std::int64_t kept = model.kept_entry.value_or(1), hidden = model.hidden_entry.value_or(0);
  std::vector<PaddingCall> calls;
  const auto add = [&](const std::string& kind, const auto& shows) {
    Tensor ids(DType::I64, {batch, length}), mask(model.mask_dtype, {batch, length}),
        rows(DType::F32, {batch, length, 8});
    for (std::int64_t at = 0; at < batch * length; ++at) {
      const bool shown = shows(at / length, at % length);
      ids.set_integer(at, 1 + static_cast<std::int64_t>(random() % 49));
      if (model.mask == 0) ids.set_integer(at, shown ? ids.integer_at(at) : 0);
      set_entry(mask, at, shown ? kept : hidden);
      for (std::int64_t e = 0; e < 8; ++e)
        rows.set_real(at * 8 + e, static_cast<double>(random() % 100) / 50 - 1);
    }
    PaddingCall call{.kind = kind, .inputs = {ids}};
    if (model.mask == 1) call.inputs.push_back(mask);
    if (model.real_rows) call.inputs.push_back(rows);
    calls.push_back(std::move(call));
  };
  add("all", [](auto, auto) { return true; });
  add("end", [](auto b, auto s) { return s < 2 * b + 1; });
  add("front", [](auto b, auto s) { return s >= 2 * b; });
  add("inside", [](auto b, auto s) { return (s + b) % 3 != 1 || s == 0; });
  add("one row", [](auto b, auto s) { return s == b; });
  add("an empty sequence", [](auto b, auto s) { return b != 1 && s < 4; });
  add("hidden first", [](auto b, auto s) { return s > 0 && s != b + 1; });
  add("none", [](auto, auto) { return false; });
  for (const double number : {1e9, 1e18, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    if (!model.real_rows || (model.brittle && std::isfinite(number))) continue;
    const auto shown = [](auto b, auto s) { return s < 2 * b + 1; };
    add(fmt::format("hidden rows of {}", number), shown);
    for (std::int64_t at = 0; at < batch * length * 8; ++at)
      if (!shown(at / 8 / length, at / 8 % length)) calls.back().inputs.back().set_real(at, number);
  }
  if (model.mask == 1 && model.mask_dtype != DType::Bool) {
    add("an entry of 2", [](auto b, auto s) { return s < 4 - b; });
    set_entry(calls.back().inputs[1], 2, 2);
    calls.back().zero_or_one = false;
  }
  return calls;
}

PaddingCall changed_rows(const PaddingModel& model, const PaddingCall& call,
                         const std::vector<bool>& rows) {
  PaddingCall changed = call;
  for (Tensor& input : changed.inputs) {
    Tensor copy(input.dtype(), input.dims());
    std::ranges::copy(input.bytes(), copy.mutable_bytes().begin());
    input = copy;
  }
  for (std::size_t at = 0; at < rows.size(); ++at) {
    if (!rows[at]) continue;
    const auto place = static_cast<std::int64_t>(at);
    if (model.mask == 1)
      changed.inputs[0].set_integer(place, (changed.inputs[0].integer_at(place) + 17) % 50);
    for (std::int64_t e = 0; model.real_rows && e < 8; ++e)
      changed.inputs.back().set_real(place * 8 + e, 3.5 * static_cast<double>(e % 3) - 2);
  }
  return changed;
}

}  // namespace anydim::tests
