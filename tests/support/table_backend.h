// A backend that only answers: two schedules whose costs cross, edges where asked for.
#pragma once

#include <algorithm>

#include "ir/backend.h"
#include "ir/error.h"

namespace anydim::tests {

// `small` costs 1 a unit of the first key, `large` costs `crossing` whatever the size; `rare` is
// for a search alone. Code of `large` has `large_code` instructions, of the others one. Every key
// has an edge at each of `edges`. Weights of matrices are packed where `packs` says so, and a
// product with what needs its rows whole is one kernel where `joins_rows` does.
struct TableBackend : ir::Backend {
  std::vector<std::int64_t> edges{16, 128};
  double crossing = 100;
  double large_code = 1;
  bool packs = false;
  bool joins_rows = true;
  bool rounds_keys = false;
  std::vector<std::size_t> overwritten{};  // parameters, of every region of one result

  std::string target() const override { return "no machine"; }
  std::string generator() const override { return "none"; }
  std::optional<ir::PackedLayout> packed_layout(const ir::Region& region,
                                                std::size_t parameter) const override {
    bool matrix = region.body.tensor_type(region.body.body.parameters[parameter]).rank() == 2;
    return packs && matrix ? std::optional(ir::PackedLayout{"panels", {8}}) : std::nullopt;
  }
  ir::Tensor pack(const ir::Region&, std::size_t, const ir::PackedLayout&, const ir::Tensor& weight,
                  const Allocate&) const override {
    return weight;
  }
  std::vector<std::size_t> overwritable(const ir::Region&) const override { return overwritten; }
  bool joins_rows_to_products() const override { return joins_rows; }
  bool rounds_keys_and_values() const override { return rounds_keys; }
  std::vector<ir::Schedule> candidates(const ir::Region&, const ir::Bucket&) const override {
    return {{"small", {}}, {"large", {}}};
  }
  std::vector<ir::Schedule> space(const ir::Region&, const ir::Bucket&) const override {
    return {{"small", {}}, {"large", {}}, {"rare", {}}};
  }
  double estimate(const ir::Region&, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys, int) const override {
    return schedule.name == "small" ? static_cast<double>(keys.empty() ? 1 : keys[0]) : crossing;
  }
  double code_size(const ir::Region&, const ir::Bucket&,
                   const ir::Schedule& schedule) const override {
    return schedule.name == "large" ? large_code : 1;
  }
  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override {
    return std::vector(region.keys.size(), edges);
  }
  ir::CompiledKernel compile(const ir::Region&, const ir::Bucket&,
                             const ir::Schedule&) const override {
    internal_error("nothing is compiled here");
  }
  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram&) const override {
    return std::nullopt;
  }
};

}  // namespace anydim::tests
