// What bench/cuda_counts.py counts: every kernel of a model's default tables for a part, padded and
// packed, in bf16 and f32, at a size that its bucket is ranked at, with the cycles that the cost
// model takes it for.
//
//   cuda_counts MODEL PART FOLDER [WORD]
//
// Writes FOLDER/N.cubin for each kernel whose schedule has the word and prints a line of JSON about
// it.
#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api/compile.h"
#include "api/load.h"
#include "codegen_cuda/backend.h"
#include "codegen_cuda/kernel_kind.h"
#include "ir/error.h"
#include "ir/loops/placed_kernel.h"
#include "ir/loops/segment_rows.h"
#include "passes/remove_padding.h"

namespace {

using namespace anydim;
using Symbols = std::map<std::string, std::int64_t>;

constexpr std::int64_t length = 64;  // of a text where no key tells it

std::int64_t value_of(const ir::Dim& dim, const Symbols& symbols) {
  return dim.evaluate([&](const ir::DimLeaf& leaf) { return symbols.at(leaf.symbol); });
}

// Sequences and their rows, where a form runs over rows laid end to end.
struct Sequences {
  ir::Segments segments;
  ir::Dim rows;
};
std::optional<Sequences> sequences_of(const ir::LoopForm& form) {
  if (const auto* attention = std::get_if<ir::AttentionForm>(&form.kind))
    if (attention->segments) return Sequences{*attention->segments, attention->row.extent};
  if (const auto* rows = std::get_if<ir::RowForm>(&form.kind))
    if (rows->segments) return Sequences{*rows->segments, rows->inner.front().extent};
  return std::nullopt;
}

// Sizes of the region's symbols whose keys lie in the bucket, next to the geometric means of its
// intervals, up to where what is best changes no more; nothing where the bucket has none.
std::optional<Symbols> sizes_in(const ir::Region& region, const ir::LoopForm& form,
                                const ir::Bucket& bucket) {
  const std::vector<std::string> names = region.body.symbols.names();
  std::set<std::string> in_keys;
  for (const ir::Dim& key : region.keys)
    for (const ir::DimLeaf& leaf : key.leaves()) in_keys.insert(leaf.symbol);
  const auto sequences = sequences_of(form);
  const bool keyed =
      sequences &&
      std::ranges::find(region.keys, ir::mean_segment_rows(sequences->segments, sequences->rows)) !=
          region.keys.end();
  constexpr std::int64_t most = 8192;
  std::optional<Symbols> best;
  double nearest = 0;
  Symbols symbols;
  const auto consider = [&] {
    std::vector<std::int64_t> keys;
    for (const ir::Dim& key : region.keys) keys.push_back(value_of(key, symbols));
    if (!bucket.contains(keys)) return;
    if (sequences) {  // equal ones, as many as there are rows for
      const std::int64_t rows = value_of(sequences->rows, symbols),
                         count = value_of(sequences->segments.count, symbols);
      if (keyed ? count < 1 || rows % count != 0 : rows != count * length) return;
    }
    double distance = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const ir::BucketInterval& interval = bucket.intervals[i];
      const auto low = static_cast<double>(std::max<std::int64_t>(interval.low, 1)),
                 high = std::max(low, static_cast<double>(std::min(interval.high, most)));
      distance += std::abs(std::log(static_cast<double>(std::max<std::int64_t>(keys[i], 1)) /
                                    std::sqrt(low * high)));
    }
    // No key tells a text's length.
    constexpr double little = 0.01;
    for (const auto& [name, size] : symbols)
      if (!in_keys.contains(name))
        distance += little * std::abs(std::log(static_cast<double>(size) / length));
    if (best && distance >= nearest) return;
    best = symbols;
    nearest = distance;
  };
  const std::function<void(std::size_t)> choose = [&](std::size_t i) {
    if (i == names.size()) return consider();
    for (const std::int64_t size :
         {1,   2,    4,    8,    12,   16,   20,   24,   32,   40,   48,  64,
          80,  96,   128,  160,  192,  224,  256,  320,  448,  512,  640, 832,
          896, 1024, 1408, 1472, 2048, 2880, 2944, 4096, 5760, 5824, 8192}) {
      symbols[names[i]] = size;
      choose(i + 1);
    }
  };
  choose(0);
  return best;
}

nlohmann::json launches_of(const codegen_cuda::EmittedKernel& emitted, const Symbols& symbols) {
  nlohmann::json list = nlohmann::json::array();
  for (const ir::DeviceLaunch& launch : emitted.launches) {
    nlohmann::json boxes = nlohmann::json::array();
    for (const ir::TensorMap& map : launch.tensor_maps) {
      std::size_t bytes = ir::size_of(map.dtype);
      for (const std::int32_t extent : map.box) bytes *= static_cast<std::size_t>(extent);
      boxes.push_back(bytes);
    }
    std::int64_t blocks = 1;
    for (const ir::Dim& dim : launch.grid) blocks *= value_of(dim, symbols);
    list.push_back({{"entry", launch.entry},
                    {"grid", blocks},
                    {"threads", launch.block[0] * launch.block[1] * launch.block[2]},
                    {"cluster", launch.cluster[0] * launch.cluster[1] * launch.cluster[2]},
                    {"boxes", boxes}});
  }
  return list;
}

// The least extent that each buffer of indices indexes, by the buffer's position.
std::map<std::int32_t, std::int64_t> indexed_by(const ir::LoopForm& form, const Symbols& symbols) {
  std::map<std::int32_t, std::int64_t> extents;
  std::map<ir::KernelValue, std::int32_t>
      loaded;  // values that come from a buffer, converted or not
  const std::function<void(const ir::KernelBlock&)> look = [&](const ir::KernelBlock& block) {
    for (const ir::KernelStatement& statement : block) {
      if (const auto* loop = std::get_if<ir::KernelLoop>(&statement.kind)) look(loop->body);
      if (const auto* section = std::get_if<ir::KernelSection>(&statement.kind))
        look(section->body);
      const auto* placed = std::get_if<ir::PlacedStep>(&statement.kind);
      if (placed == nullptr) continue;
      const ir::KernelValue value{ir::KernelValue::Kind::Step, placed->program, placed->number};
      if (const auto* load = std::get_if<ir::step::Load>(&placed->step.kind))
        loaded[value] = load->buffer;
      if (placed->operands.empty() || !loaded.contains(placed->operands.front())) continue;
      const std::int32_t buffer = loaded.at(placed->operands.front());
      if (placed->step.applies(ir::Op::cast)) loaded[value] = buffer;
      if (const auto* index = std::get_if<ir::step::CheckedIndex>(&placed->step.kind)) {
        const std::int64_t extent = value_of(index->extent, symbols);
        extents[buffer] = extents.contains(buffer) ? std::min(extents[buffer], extent) : extent;
      }
    }
  };
  look(ir::place_kernel(form).body);
  return extents;
}

nlohmann::json segments_of(const ir::LoopForm& form, const Symbols& symbols) {
  const auto sequences = sequences_of(form);
  if (!sequences) return nullptr;
  const std::int64_t count = value_of(sequences->segments.count, symbols);
  return {{"offsets", sequences->segments.offsets},
          {"work", sequences->segments.work},
          {"count", count},
          {"rows", value_of(sequences->rows, symbols) / count}};
}

nlohmann::json buffers_of(const ir::Region& region, const ir::LoopForm& form,
                          const Symbols& symbols) {
  nlohmann::json list = nlohmann::json::array();
  const std::map<std::int32_t, std::int64_t> indexed = indexed_by(form, symbols);
  const auto add = [&](ir::ValueId value) {
    const ir::TensorType& type = region.body.tensor_type(value);
    nlohmann::json dims = nlohmann::json::array();
    for (const ir::Dim& dim : type.dims) dims.push_back(value_of(dim, symbols));
    const auto found = indexed.find(static_cast<std::int32_t>(list.size()));
    list.push_back({{"dtype", std::string(ir::name_of(type.dtype))},
                    {"dims", dims},
                    {"below", found == indexed.end() ? 0 : found->second}});
  };
  for (const ir::ValueId value : region.body.body.parameters) add(value);
  for (const ir::ValueId value : region.body.body.results) add(value);
  return list;
}

class Counts {
 public:
  Counts(const codegen_cuda::CudaTarget& part, std::filesystem::path folder, std::string word)
      : part_(part), folder_(std::move(folder)), word_(std::move(word)),
        backend_(codegen_cuda::make_cuda_backend({.target = part, .nvrtc_path = {}})) {}

  const std::shared_ptr<const ir::Backend>& backend() const { return backend_; }

  void add(const ir::Program& program, const std::string& precision, bool packed) {
    for (const ir::Program::Kernel& kernel : program.kernels) {
      const ir::LoopForm form = *ir::loop_form_of(kernel.region);
      for (const ir::DispatchTable::Entry& entry : kernel.table.entries)
        add(kernel.region, form, entry, precision, packed);
    }
  }

 private:
  void add(const ir::Region& region, const ir::LoopForm& form,
           const ir::DispatchTable::Entry& entry, const std::string& precision, bool packed) {
    if (to_string(entry.schedule).find(word_) == std::string::npos) return;
    const codegen_cuda::EmittedKernel emitted =
        codegen_cuda::cuda_kernel(part_, region, entry.compiled_for(), entry.schedule);
    const std::optional<Symbols> symbols = sizes_in(region, form, entry.bucket);
    if (!symbols || !seen_.insert(emitted.source).second) return;
    std::vector<std::int64_t> keys;
    for (const ir::Dim& key : region.keys) keys.push_back(value_of(key, *symbols));
    codegen_cuda::LaunchCycles cycles;
    for (const auto& kind : codegen_cuda::all_kernel_kinds())
      if (kind->name() == entry.schedule.name)
        cycles = kind->cycles({part_, region, form}, entry.schedule, keys);
    const std::string file = (folder_ / fmt::format("{}.cubin", number_++)).string();
    const ir::CompiledKernel compiled =
        backend_->compile(region, entry.compiled_for(), entry.schedule);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(compiled.code.data()),
               static_cast<std::streamsize>(compiled.code.size()));
    nlohmann::json extents = nlohmann::json::array();
    for (const std::string& name : region.body.symbols.names())
      extents.push_back(symbols->at(name));
    const nlohmann::json line = {
        {"region", region.name},
        {"precision", precision},
        {"packed", packed},
        {"bucket", to_string(entry.bucket)},
        {"schedule", to_string(entry.schedule)},
        {"keys", keys},
        {"seconds", backend_->estimate(region, entry.schedule, keys, 1)},
        {"model", {{"issue", cycles.issue}, {"tensor", cycles.tensor}, {"memory", cycles.memory}}},
        {"multiprocessors", part_.multiprocessors},
        {"l2_bytes_per_clock", part_.costs.l2_bytes_per_clock},
        {"tensor_flops", part_.tensor_flops},
        {"cubin", file},
        {"extents", extents},
        {"buffers", buffers_of(region, form, *symbols)},
        {"segments", segments_of(form, *symbols)},
        {"launches", launches_of(emitted, *symbols)}};
    fmt::print("{}\n", line.dump());
  }

  const codegen_cuda::CudaTarget part_;
  std::filesystem::path folder_;
  std::string word_;  // of the schedules that are wanted
  std::shared_ptr<const ir::Backend> backend_;
  std::set<std::string> seen_;  // sources: tables share kernels
  int number_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  try {
    const auto part =
        count == 4 || count == 5 ? codegen_cuda::target_named(arguments[2]) : std::nullopt;
    if (!part) {
      fmt::print(stderr, "usage: cuda_counts MODEL PART FOLDER [WORD]\n");
      return 2;
    }
    std::filesystem::create_directories(arguments[3]);
    Counts counts(*part, arguments[3], count == 5 ? arguments[4] : "");
    const CompileTarget target{.backend = counts.backend(), .device = nullptr};
    for (const char* precision : {"bf16", "f32"}) {
      CompileOptions options;
      options.precision = parse_precision(precision);
      const ir::Module padded = module_at_fork(load_model(arguments[1]), options);
      passes::PackingResult packed = passes::remove_padding(padded, passes::PackedForm::Zeroed);
      counts.add(program_for(target, padded, options), precision, false);
      if (packed.packed)
        counts.add(program_for(target, std::move(packed.packed->module), options), precision, true);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
