#include "ir/region.h"

#include <algorithm>
#include <ranges>

#include "ir/error.h"
#include "ir/text/print.h"

namespace anydim::ir {

std::string identity_of(const Region& region) {
  std::string identity = "weights";
  for (const std::uint32_t position : region.weights) identity += " " + std::to_string(position);
  for (const std::uint32_t position : region.weights_of_4_bits)
    identity += " i4 " + std::to_string(position);
  identity += '\n';
  identity += print_canonical(region.body);
  return identity;
}

void seal(Region& region) {
  region.identity = identity_of(region);
  region.form = nullptr;
}

ShapeProgram shapes_over(const Region& region, std::vector<Dim> expressions) {
  ShapeProgram program;
  for (const std::string& name : region.body.symbols.names())
    program.leaves.push_back({.symbol = name});
  program.expressions = std::move(expressions);
  return program;
}

std::optional<std::int64_t> known_at(const Region& region, const Dim& dim,
                                     std::span<const std::int64_t> keys) {
  if (const auto constant = dim.constant()) return constant;
  for (std::size_t i = 0; i < std::min(region.keys.size(), keys.size()); ++i) {
    if (region.keys[i] == dim) return keys[i];
  }
  return std::nullopt;
}

double estimated_at(const Region& region, const Dim& dim, std::span<const std::int64_t> keys,
                    double middling) {
  if (const auto known = known_at(region, dim, keys)) return static_cast<double>(*known);
  const SymbolTable& symbols = region.body.symbols;
  for (std::size_t i = 0; i < std::min(region.keys.size(), keys.size()); ++i) {
    const Dim& key = region.keys[i];
    const Dim rest = simplify(floor_div(dim, key), symbols);
    if (const auto factor = rest.constant(); factor && rest * key == dim)
      return static_cast<double>(*factor) * static_cast<double>(keys[i]);
    const Dim times = simplify(floor_div(key, dim), symbols);
    if (const auto factor = times.constant(); factor && times * dim == key && *factor > 0)
      return static_cast<double>(keys[i]) / static_cast<double>(*factor);
  }
  return middling;
}

double traffic_bytes(const Region& region, double points, std::span<const std::int64_t> keys) {
  double bytes = 0;
  const auto add = [&](ValueId value) {
    const TensorType& type = region.body.tensor_type(value);
    const double elements = estimated_at(region, product(type.dims), keys, points);
    bytes += std::min(elements, points) * static_cast<double>(size_of(type.dtype));
  };
  for (const ValueId value : region.body.body.parameters) add(value);
  for (const ValueId value : region.body.body.results) add(value);
  return bytes;
}

namespace {

// What the region's result is overwritten in, in place, one part after the other; no_value: nothing
// is.
ValueId overwritten_in_place(const Region& region) {
  const Block& body = region.body.body;
  ValueId whole = no_value;
  for (const Binding& binding : body.bindings | std::views::reverse) {
    if (!is_in_place(binding)) continue;
    internal_check(
        whole == no_value ? body.results == binding.results : whole == binding.results[0],
        "what a kernel overwrites in place is all that it gives");
    whole = binding.operands[0];
  }
  return whole;
}

}  // namespace

bool writes_part(const Region& region) { return overwritten_in_place(region) != no_value; }

std::optional<std::size_t> parameter_in_place(const Region& region) {
  const std::vector<ValueId>& parameters = region.body.body.parameters;
  const ValueId whole = overwritten_in_place(region);
  const auto parameter = std::ranges::find(parameters, whole);
  if (whole == no_value || parameter == parameters.end()) return std::nullopt;
  return static_cast<std::size_t>(parameter - parameters.begin());
}

void narrow(SymbolTable& symbols, const Region& region, const Bucket& bucket) {
  for (std::size_t i = 0; i < std::min(bucket.intervals.size(), region.keys.size()); ++i) {
    if (region.keys[i].kind() != Dim::Kind::Symbol) continue;
    const BucketInterval& interval = bucket.intervals[i];
    const std::string& name = region.keys[i].leaf().symbol;
    symbols.narrow(name, {interval.low, interval.high}, "bucket");
    if (const SymbolInfo* known = symbols.find(name);
        known && interval.multiple > 1 && known->multiple % interval.multiple != 0) {
      SymbolInfo info = *known;
      info.multiple = interval.multiple;
      symbols.declare(name, info);
    }
  }
}

Interval bounds_in(const Region& region, const Bucket& bucket, const Dim& dim,
                   const SymbolTable& symbols) {
  Interval interval = bounds(dim, symbols);
  for (std::size_t i = 0; i < std::min(bucket.intervals.size(), region.keys.size()); ++i) {
    const BucketInterval& cut = bucket.intervals[i];
    const Interval by_key = bounds_by(dim, region.keys[i], {cut.low, cut.high}, symbols);
    interval.low = std::max(interval.low, by_key.low);
    interval.high = std::min(interval.high, by_key.high);
  }
  return interval;
}

}  // namespace anydim::ir
