#include "tuner/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "ir/error.h"
#include "tuner/text_hash.h"

namespace anydim::tuner {

namespace {

// The symbols that a batch of texts decides.
struct BatchSymbols {
  std::size_t batch = 0, length = 0;
  bool rows_only = false;  // one symbol: rows of all texts
};

BatchSymbols batch_symbols(const ModelShape& model) {
  const std::vector<std::string> names = model.symbol_names();
  if (names.size() == 1) return {.rows_only = true};
  if (names.size() != 2) {
    throw Error(
        ErrorKind::CommandLine,
        "lengths say how many texts a batch has and how long they are, but the model's sizes are "
        "{}; record a trace of calls with `anydim run --record FILE` and tune with --trace FILE",
        names.empty() ? "all constant" : fmt::format("{}", fmt::join(names, ", ")));
  }
  BatchSymbols symbols{.batch = 0, .length = 1};
  if (model.packing) {
    const std::vector<ir::Dim>& mask = model.inputs.at(model.packing->mask).dims;
    if (mask.size() == 2 && mask[1].kind() == ir::Dim::Kind::Symbol &&
        mask[1].leaf().symbol == names[0])
      std::swap(symbols.batch, symbols.length);
  }
  return symbols;
}

void check_range(const ModelShape& model, const std::string& symbol, std::int64_t value,
                 const std::string& what) {
  const ir::SymbolInfo* known = model.symbols.find(symbol);
  const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
  if (value >= info.low && value <= info.high && value % info.multiple == 0) return;
  throw Error(ErrorKind::Inputs, "{} gives {} = {}, but the model takes {} in [{}, {}]{}{}", what,
              symbol, value, symbol, info.low, info.high,
              info.multiple > 1 ? fmt::format(" in multiples of {}", info.multiple) : "",
              info.reason.empty() ? "" : fmt::format(" ({})", info.reason));
}

std::vector<std::vector<std::int64_t>> tensor_dims(const ModelShape& model, const Call& call) {
  const std::vector<std::string> names = model.symbol_names();
  std::map<std::string, std::int64_t, std::less<>> values;
  for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = call.values.at(i);
  std::vector<std::vector<std::int64_t>> all;
  for (const ModelInput& input : model.inputs) {
    std::vector<std::int64_t>& dims = all.emplace_back();
    for (const ir::Dim& dim : input.dims)
      dims.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) { return values.at(leaf.symbol); }));
  }
  if (!model.packing) return all;
  const std::vector<std::int64_t> mask = all.at(model.packing->mask);
  const std::int64_t batch = mask.at(0), length = mask.at(1);
  const std::int64_t rows =
      call.lengths.empty()
          ? batch * length
          : std::accumulate(call.lengths.begin(), call.lengths.end(), std::int64_t{0});
  for (const runtime::RowVector vector : model.packing->vectors) {
    switch (vector) {
      case runtime::RowVector::Rows:
      case runtime::RowVector::Positions:
      case runtime::RowVector::Sequences: all.push_back({rows}); break;
      case runtime::RowVector::Offsets: all.push_back({batch + 1}); break;
      case runtime::RowVector::Places: all.push_back({batch * length}); break;
      case runtime::RowVector::Steps: all.push_back({length}); break;
      case runtime::RowVector::Work: all.push_back({batch, 2}); break;
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> ModelShape::symbol_names() const {
  std::vector<std::string> names;
  for (const ModelInput& input : inputs) {
    for (const ir::Dim& dim : input.dims) {
      if (dim.kind() == ir::Dim::Kind::Symbol &&
          std::ranges::find(names, dim.leaf().symbol) == names.end())
        names.push_back(dim.leaf().symbol);
    }
  }
  return names;
}

Workload sample_workload(const ModelShape& model, const Distribution& distribution,
                         const runtime::BatchRule& rule, std::size_t samples, std::uint64_t seed) {
  const BatchSymbols symbols = batch_symbols(model);
  const std::vector<std::string> names = model.symbol_names();
  Workload workload;
  const auto add = [&](std::span<const std::int64_t> lengths) {
    for (const runtime::Batch& batch : runtime::make_batches(lengths, rule)) {
      Call call;
      for (const std::size_t text : batch.texts) call.lengths.push_back(lengths[text]);
      if (symbols.rows_only) {
        call.values = {batch.useful};
        call.lengths.clear();
        check_range(model, names[0], batch.useful, distribution.text);
      } else {
        call.values.resize(2);
        call.values[symbols.batch] = static_cast<std::int64_t>(batch.texts.size());
        call.values[symbols.length] = batch.longest;
        for (std::size_t i = 0; i < names.size(); ++i)
          check_range(model, names[i], call.values[i], distribution.text);
      }
      workload.calls.push_back(std::move(call));
    }
  };
  // As many texts at once as make a good number of batches, also where the last of them is not
  // full.
  const std::size_t texts =
      distribution.observed.empty()
          ? std::max<std::size_t>(256, 16 * static_cast<std::size_t>(rule.texts.value_or(1)))
          : distribution.observed.size();
  for (std::uint64_t round = 0; workload.calls.size() < samples; ++round)
    add(draw_lengths(distribution, texts, seed + round));
  workload.text = fmt::format(
      "{}, batches of {}{}{}{}", distribution.text,
      rule.texts ? fmt::format("{} texts", *rule.texts) : "",
      rule.texts && rule.tokens ? " and " : "",
      rule.tokens
          ? fmt::format("{} {} tokens", *rule.tokens,
                        rule.counted == runtime::CountedTokens::Padded ? "padded" : "useful")
          : "",
      rule.sorted ? ", sorted" : "");
  return workload;
}

nlohmann::json to_json(const Call& call) {
  return {{"values", call.values}, {"lengths", call.lengths}, {"inputs", call.inputs}};
}

Call call_of(const nlohmann::json& said) {
  return {.values = said.at("values").get<std::vector<std::int64_t>>(),
          .lengths = said.at("lengths").get<std::vector<std::int64_t>>(),
          .inputs = said.at("inputs").get<std::string>()};
}

Workload traced_workload(const ModelShape& model, const Trace& trace) {
  std::vector<std::string> inputs;
  for (const ModelInput& input : model.inputs) {
    std::vector<std::string> dims;
    for (const ir::Dim& dim : input.dims) dims.push_back(dim.to_string());
    inputs.push_back(
        fmt::format("{}: {} ({})", input.name, ir::name_of(input.dtype), fmt::join(dims, ", ")));
  }
  const std::vector<std::string> names = model.symbol_names();
  if (trace.inputs() != inputs || trace.symbols() != names) {
    throw Error(ErrorKind::Malformed,
                "the trace is of another model: its inputs are {}; this model's are {}",
                fmt::join(trace.inputs(), "; "), fmt::join(inputs, "; "));
  }
  if (trace.bins().empty()) throw Error(ErrorKind::Malformed, "the trace holds no call");
  Workload workload;
  for (const auto& [sizes, bin] : trace.bins()) {
    Call call{.values = {sizes.begin(), sizes.end() - 1}, .weight = static_cast<double>(bin.calls)};
    for (const auto& [launch, count] : bin.launches)
      call.found.push_back({launch.first, launch.second,
                            static_cast<double>(count) / static_cast<double>(bin.calls)});
    for (std::size_t i = 0; i < names.size(); ++i)
      check_range(model, names[i], call.values[i], "the trace");
    if (model.packing && sizes.back() > 0 && names.size() == 2) {
      // The longest text is known and the rows of all; the others share what is left.
      const BatchSymbols symbols = batch_symbols(model);
      const std::int64_t batch = call.values[symbols.batch], longest = call.values[symbols.length];
      std::int64_t left = std::clamp(sizes.back(), batch, batch * longest) - longest;
      call.lengths.push_back(longest);
      for (std::int64_t text = 1; text < batch; ++text) {
        const std::int64_t share = std::clamp<std::int64_t>(left / (batch - text), 1, longest);
        call.lengths.push_back(share);
        left -= share;
      }
    }
    workload.calls.push_back(std::move(call));
  }
  workload.text = fmt::format("trace of {} calls ({})", trace.calls(), text_hash(trace.to_json()));
  return workload;
}

bool shapes_decide_launches(const ir::Program& program) {
  return std::ranges::all_of(program.entry().instructions,
                             [](const ir::Code::Instruction& instruction) {
                               return std::holds_alternative<ir::Code::RunStage>(instruction) ||
                                      std::holds_alternative<ir::Code::Launch>(instruction);
                             });
}

bool values_decide_launches(const ir::Program& program) {
  const auto fetches = [](const ir::Code& code) {
    return std::ranges::any_of(code.instructions, [](const auto& instruction) {
      return std::holds_alternative<ir::Code::Fetch>(instruction);
    });
  };
  return std::ranges::any_of(program.functions, fetches);
}

std::vector<std::string> region_fingerprints(const ir::Program& program) {
  std::vector<std::string> fingerprints;
  for (const ir::Program::Kernel& kernel : program.kernels)
    fingerprints.push_back(text_hash(kernel.region.identity));
  return fingerprints;
}

ShapeWalk::ShapeWalk(const ir::Program& program) : program_(program) {
  internal_check(shapes_decide_launches(program), "only shapes decide the sizes of this program");
  signature_.name = "main";
  signature_.symbols = program.entry().symbols;
  for (const ir::Code::Input& input : program.entry().inputs)
    signature_.body.parameters.push_back(
        signature_.add_value(input.name, ir::TensorType{input.dtype, input.dims}));
  for (const ir::Program::Stage& stage : program.stages) interpreters_.emplace_back(stage.shapes);
}

std::vector<LaunchKeys> ShapeWalk::launches(const ModelShape& model, const Call& call) const {
  const std::vector<std::vector<std::int64_t>> dims = tensor_dims(model, call);
  std::vector<ir::InputShape> shapes;
  for (std::size_t i = 0; i < dims.size(); ++i)
    shapes.push_back({program_.entry().inputs.at(i).dtype, dims[i]});
  const ir::SymbolValues symbols = ir::bind_symbols(signature_, shapes);
  std::vector<std::int64_t> slots(static_cast<std::size_t>(program_.entry().slots));
  for (std::size_t slot = 0; slot < program_.entry().leaf_symbols.size(); ++slot) {
    const auto found = symbols.find(program_.entry().leaf_symbols[slot]);
    if (found != symbols.end()) slots[slot] = found->second;
  }
  std::vector<LaunchKeys> launches;
  for (const ir::Code::Instruction& instruction : program_.entry().instructions) {
    if (const auto* run = std::get_if<ir::Code::RunStage>(&instruction)) {
      const ir::Program::Stage& stage = program_.stages[static_cast<std::size_t>(run->stage)];
      std::vector<std::int64_t> leaves;
      for (const ir::Code::Slot slot : stage.leaves)
        leaves.push_back(slots[static_cast<std::size_t>(slot)]);
      const std::span<std::int64_t> values(slots.data() + stage.first,
                                           stage.shapes.expressions.size());
      if (interpreters_[static_cast<std::size_t>(run->stage)].run(leaves, values) >= 0)
        throw Error(ErrorKind::Inputs,
                    "a size of the model has no 64-bit value for a sampled call (it overflows or "
                    "divides by zero)");
    } else {
      const auto& launch = std::get<ir::Code::Launch>(instruction);
      LaunchKeys& one = launches.emplace_back();
      one.kernel = launch.kernel;
      for (const ir::Code::Slot slot : launch.keys)
        one.keys.push_back(slots[static_cast<std::size_t>(slot)]);
    }
  }
  return launches;
}

namespace {

// At most about `most_sizes`: where there are more, those that agree in their keys' leading bits
// are one, at the heaviest of them. Points stay themselves.
KeyWeights merged_sizes(const std::map<std::vector<std::int64_t>, double>& all,
                        const std::vector<std::vector<std::int64_t>>& points) {
  constexpr std::size_t most_sizes = 128;
  constexpr int most_bits = 62;
  for (int bits = most_bits; bits > 0; --bits) {
    // by rounded keys
    std::map<std::vector<std::int64_t>, std::map<std::vector<std::int64_t>, double>> groups;
    for (const auto& [keys, weight] : all) {
      std::vector<std::int64_t> rounded = keys;
      for (std::int64_t& key : rounded) {
        const int drop =
            std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(key))) - bits);
        key = key >> drop << drop;
      }
      groups[std::ranges::find(points, keys) != points.end() ? keys : rounded][keys] += weight;
    }
    if (groups.size() > most_sizes && bits > 1) continue;
    KeyWeights merged;
    for (const auto& [rounded, members] : groups) {
      const auto own = members.find(rounded);
      const bool is_point =
          own != members.end() && std::ranges::find(points, rounded) != points.end();
      const auto heaviest = is_point ? own
                                     : std::ranges::max_element(
                                           members, {}, [](const auto& one) { return one.second; });
      merged.keys.push_back(heaviest->first);
      merged.weights.push_back(0);
      for (const auto& [keys, weight] : members) merged.weights.back() += weight;
    }
    return merged;
  }
  internal_error("one bit a key leaves few sizes");
}

// A loop launches a region at a size a step: as many of these are left as there are in other
// programs, evenly over them all.
constexpr std::size_t points_a_representative = 2;
void thin_out(std::map<std::vector<std::int64_t>, std::size_t>& points, std::size_t most) {
  if (points.size() <= most) return;
  std::vector<std::vector<std::int64_t>> order;
  for (const auto& [keys, representative] : points) order.push_back(keys);
  std::ranges::sort(order, {}, [](const std::vector<std::int64_t>& keys) {
    return std::pair(distance(keys, std::vector<std::int64_t>(keys.size())), keys);
  });
  std::map<std::vector<std::int64_t>, std::size_t> kept;
  for (std::size_t i = 0; i < most; ++i)
    kept.insert(*points.find(order[most == 1 ? 0 : i * (order.size() - 1) / (most - 1)]));
  points = std::move(kept);
}

}  // namespace

KeyPoints choose_points(const Workload& workload, std::span<const std::vector<LaunchKeys>> launches,
                        std::span<const double> work, std::size_t most, std::size_t runnable) {
  const std::size_t count = workload.calls.size();
  runnable = std::min(runnable, count);
  internal_check(runnable > 0 && launches.size() == count && work.size() == count && most > 0,
                 "a workload has calls that can be made, each with launches and work");
  std::vector<std::size_t> order(runnable);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t call) { return std::pair(work[call], call); });

  // Where what is met comes from calls that cannot be made, those that can count alike.
  const bool weighed =
      std::ranges::any_of(order, [&](std::size_t call) { return workload.calls[call].weight > 0; });
  const auto weighed_work = [&](std::size_t call) {
    return (weighed ? workload.calls[call].weight : 1) * work[call];
  };
  KeyPoints chosen;
  double total = 0;
  for (const std::size_t call : order) total += weighed_work(call);
  std::set<std::size_t> taken{0, runnable - 1};  // positions in `order`
  double sum = 0;
  std::size_t part = 1;
  for (std::size_t at = 0; at < runnable && most > 2; ++at) {
    if (runnable <= most) taken.insert(at);
    sum += weighed_work(order[at]);
    if (sum < total * static_cast<double>(part) / static_cast<double>(most - 1)) continue;
    if (taken.size() < most) taken.insert(at);
    while (sum >= total * static_cast<double>(part) / static_cast<double>(most - 1) && part < most)
      ++part;
  }
  for (const std::size_t at : taken) chosen.representatives.push_back(order[at]);
  if (most == 1) chosen.representatives.resize(1);

  // to the representative that has it
  std::map<std::int32_t, std::map<std::vector<std::int64_t>, std::size_t>> points;
  for (std::size_t r = 0; r < chosen.representatives.size(); ++r)
    for (const LaunchKeys& launch : launches[chosen.representatives[r]])
      points[launch.kernel].emplace(launch.keys, r);
  for (auto& [kernel, of_kernel] : points)
    thin_out(of_kernel, points_a_representative * chosen.representatives.size());
  double calls = 0;
  for (const Call& call : workload.calls) calls += call.weight;
  std::map<std::int32_t, std::map<std::vector<std::int64_t>, double>> sizes;  // weights of all keys
  for (const auto& [kernel, of_kernel] : points) {
    RegionPoints& region = chosen.regions.emplace_back();
    region.kernel = kernel;
    for (const auto& [keys, representative] : of_kernel) {
      region.points.push_back(keys);
      region.calls.push_back(representative);
    }
    region.weights.resize(region.points.size());
  }
  for (std::size_t call = 0; call < count; ++call) {
    for (const LaunchKeys& launch : launches[call]) {
      const auto region = std::ranges::find(chosen.regions, launch.kernel, &RegionPoints::kernel);
      if (region == chosen.regions.end()) continue;
      std::size_t nearest = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t p = 0; p < region->points.size(); ++p) {
        const double apart = distance(region->points[p], launch.keys);
        if (apart < least) least = apart, nearest = p;
      }
      const double expected = workload.calls[call].weight / calls * launch.times;
      if (expected <= 0) continue;
      region->weights[nearest] += expected;
      sizes[launch.kernel][launch.keys] += expected;
    }
  }
  for (RegionPoints& region : chosen.regions)
    region.sizes = merged_sizes(sizes[region.kernel], region.points);
  std::erase_if(chosen.regions,
                [](const RegionPoints& region) { return region.sizes.keys.empty(); });
  return chosen;
}

}  // namespace anydim::tuner
