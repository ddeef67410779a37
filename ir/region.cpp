#include "ir/region.h"

#include <algorithm>

#include "ir/text/print.h"

namespace anydim::ir {

namespace {

// A product of atoms with a coefficient, where the dim is one.
struct Product {
  std::int64_t coefficient = 1;
  std::vector<Dim> factors;
};

std::optional<Product> as_product(const Dim& dim) {
  if (dim.kind() == Dim::Kind::Sum) {
    if (dim.terms().size() != 1 || dim.constant_part() != 0) return std::nullopt;
    return Product{dim.terms()[0].coefficient, dim.terms()[0].factors};
  }
  if (const auto constant = dim.constant()) return Product{*constant, {}};
  return Product{1, {dim}};
}

// The factors of `whole` less those of `part`; nullopt where some of them are missing.
std::optional<std::vector<Dim>> without(std::vector<Dim> whole, const std::vector<Dim>& part) {
  for (const Dim& factor : part) {
    const auto found = std::find(whole.begin(), whole.end(), factor);
    if (found == whole.end()) return std::nullopt;
    whole.erase(found);
  }
  return whole;
}

// What `dim` is where `key` lies in the interval: all values, where dim is no positive multiple of
// key.
Interval bounds_by_key(const Dim& dim, const Dim& key, const BucketInterval& interval,
                       const SymbolTable& symbols) {
  if (dim == key) return {interval.low, interval.high};
  const auto product = as_product(dim), divisor = as_product(key);
  if (!product || product->coefficient <= 0) return {};
  if (!divisor || divisor->factors.empty() || divisor->coefficient <= 0) return {};
  const auto rest = without(product->factors, divisor->factors);
  if (!rest) return {};
  constexpr Interval unbounded;
  std::optional<std::int64_t> low = product->coefficient, high = low;
  const auto multiply = [](std::optional<std::int64_t>& value, std::int64_t factor) {
    const bool bounded = value && factor != unbounded.high;
    std::int64_t result = 0;
    if (bounded && !__builtin_mul_overflow(*value, factor, &result)) value = result;
    else value.reset();
  };
  for (const Dim& factor : *rest) {
    const Interval range = bounds(factor, symbols);
    if (range.low < 0) return {};
    multiply(low, range.low);
    multiply(high, range.high);
  }
  multiply(low, interval.low);
  multiply(high, interval.high);
  // dim == coefficient * rest * key / the key's own coefficient
  Interval found;
  if (low) found.low = *low / divisor->coefficient;
  if (high) found.high = *high / divisor->coefficient;
  return found;
}

}  // namespace

std::string identity_of(const Region& region) {
  std::string identity = "weights";
  for (const std::uint32_t position : region.weights) identity += " " + std::to_string(position);
  identity += '\n';
  identity += print_canonical(region.body);
  return identity;
}

void seal(Region& region) { region.identity = identity_of(region); }

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
    const Interval by_key = bounds_by_key(dim, region.keys[i], bucket.intervals[i], symbols);
    interval.low = std::max(interval.low, by_key.low);
    interval.high = std::min(interval.high, by_key.high);
  }
  return interval;
}

}  // namespace anydim::ir
