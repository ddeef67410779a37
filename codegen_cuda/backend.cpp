#include "codegen_cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "codegen_cuda/compile.h"
#include "codegen_cuda/matmul/library_product.h"
#include "codegen_cuda/source_hash.h"
#include "codegen_cuda/work.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

// The version that caches are filled with where NVRTC itself is not there to ask: kernels compiled
// elsewhere then still serve.
constexpr const char* pinned_nvrtc = "13.0";

using KernelKinds = std::vector<std::unique_ptr<KernelKind>>;

bool accepts(const KernelKind& kind, const PlanInputs& inputs) {
  return (kind.takes_segments() || !ir::has_segments(inputs.form)) && kind.accepts(inputs);
}

// A region's form, and which kernel kinds compute it.
struct KnownForm {
  ir::LoopForm form;
  std::shared_ptr<const FormFacts> facts;
  std::vector<const KernelKind*> kinds;

  KnownForm(const CudaTarget& target, const KernelKinds& all, const ir::Region& region)
      : form(*ir::loop_form_of(region)), facts(derive_facts(target, region, form)) {
    if (const auto* attention = std::get_if<ir::AttentionForm>(&form.kind);
        attention != nullptr && attention->zero_nan)
      throw Error(ErrorKind::Unsupported,
                  "the region {} takes attention's weights of NaN for 0, which is done "
                  "beside kernels on CUDA",
                  region.name);
    for (const auto& kind : all)
      if (accepts(*kind, {target, region, form, facts})) kinds.push_back(kind.get());
  }
  KnownForm(const KnownForm&) = delete;  // facts point into the form
  KnownForm& operator=(const KnownForm&) = delete;
};

const KernelKind& kernel_kind_of(const KnownForm& known, const CudaTarget& target,
                                 const ir::Schedule& schedule) {
  for (const KernelKind* kind : known.kinds) {
    if (kind->name() == schedule.name) return *kind;
  }
  throw Error(ErrorKind::Unsupported,
              "the schedule `{}` does not compute a region of kind {} on {}", to_string(schedule),
              ir::kind_name(known.form), target.architecture);
}

EmittedKernel emit(const KnownForm& known, const PlanInputs& inputs, const ir::Bucket& bucket,
                   const ir::Schedule& schedule, bool checked) {
  const KernelKind& kind = kernel_kind_of(known, inputs.target, schedule);
  if (const auto why = kind.misfit(inputs, schedule)) {
    throw Error(ErrorKind::Resource, "the schedule `{}` does not fit {} ({}): {}",
                to_string(schedule), inputs.target.name, inputs.target.architecture, *why);
  }
  return kind.emit(inputs, bucket, schedule, checked);
}

class CudaBackend : public ir::Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : options_(options), kinds_(all_kernel_kinds()) {
    if (options_.target.wants_ptx()) options_.output = CudaOutput::Ptx;
  }

  const CudaOptions& options() const { return options_; }

  std::string target() const override {
    const CudaTarget& part = options_.target;
    return fmt::format("cuda {} {} multiprocessors {} {} bytes shared{}{}{}", part.architecture,
                       part.multiprocessors, part.shared_per_block, part.shared_per_multiprocessor,
                       options_.output == CudaOutput::Ptx ? " ptx" : "",
                       options_.checked ? " checked" : "", part.tf32 ? " tf32" : "");
  }

  std::string generator() const override {
    std::string version = pinned_nvrtc;
    try {
      version = nvrtc()->version();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Resource) throw;
    }
    const ReplacedText* replaced = options_.target.replaced.get();
    return fmt::format("{} NVRTC {}{}", source_hash, version,
                       replaced != nullptr ? " device text " + replaced->identity : "");
  }

  std::optional<ir::PackedLayout> packed_layout(const ir::Region&, std::size_t) const override {
    return std::nullopt;
  }
  ir::Tensor pack(const ir::Region&, std::size_t, const ir::PackedLayout&, const ir::Tensor&,
                  const Allocate&) const override {
    internal_error("weights keep their layout on CUDA");
  }

  std::vector<ir::Schedule> candidates(const ir::Region& region,
                                       const ir::Bucket& bucket) const override {
    return offered(region, [&](const KernelKind& kind, const PlanInputs& inputs) {
      return kind.candidates(inputs, bucket);
    });
  }

  std::vector<ir::Schedule> space(const ir::Region& region,
                                  const ir::Bucket& bucket) const override {
    return ir::joined(candidates(region, bucket),
                      offered(region, [&](const KernelKind& kind, const PlanInputs& inputs) {
                        return kind.space(inputs, bucket);
                      }));
  }

  double estimate(const ir::Region& region, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys, int) const override {
    const auto known = known_form(region);
    return kernel_kind_of(*known, options_.target, schedule)
        .estimate(inputs_of(region, *known), schedule, keys);
  }

  // Measured on an H200 (bench/results/gpu_h200.md): a block or cluster that holds whole rows takes
  // longer than a product whose results leave from registers and a kernel that streams them, at
  // every size.
  bool joins_rows_to_products() const override { return false; }

  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override {
    const auto known = known_form(region);
    const PlanInputs inputs = inputs_of(region, *known);
    std::vector<std::vector<std::int64_t>> edges(region.keys.size());
    for (const KernelKind* kind : known->kinds) {
      const auto own = kind->key_edges(inputs);
      for (std::size_t i = 0; i < std::min(edges.size(), own.size()); ++i)
        edges[i].insert(edges[i].end(), own[i].begin(), own[i].end());
    }
    for (auto& of_key : edges) {
      std::sort(of_key.begin(), of_key.end());
      of_key.erase(std::unique(of_key.begin(), of_key.end()), of_key.end());
    }
    return edges;
  }

  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    const auto known = known_form(region);
    const EmittedKernel emitted =
        emit(*known, inputs_of(region, *known), bucket, schedule, options_.checked);
    if (emitted.source.empty()) {
      ir::CompiledKernel call;
      call.scratch_bytes = emitted.workspace_bytes;
      call.device = ir::CudaLaunches{.launches = emitted.launches};
      return call;
    }
    const std::string name =
        fmt::format("{} `{}` {}", region.name, to_string(schedule), to_string(bucket));
    return compile_emitted(*nvrtc(), options_.target, options_.output, emitted, name);
  }

  std::optional<ir::DeviceLimits> limits() const override { return limits_of(options_.target); }
  std::shared_ptr<const ir::Backend> checked_forms() const override {
    if (options_.checked) return nullptr;
    CudaOptions options = options_;
    options.checked = true;
    return std::make_shared<const CudaBackend>(options);
  }

  LibraryChoice library_schedule(const ir::Region& region) const override {
    const auto known = known_form(region);
    LibraryForm library = library_form(inputs_of(region, *known));
    if (!library.product) return {std::nullopt, std::move(library.reason)};
    return {ir::Schedule{.name = library_schedule_name, .fields = {}}, {}};
  }

  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram&) const override {
    return std::nullopt;
  }

 private:
  std::shared_ptr<const Nvrtc> nvrtc() const {
    const std::lock_guard lock(nvrtc_mutex_);
    if (!nvrtc_) nvrtc_ = Nvrtc::open(options_.nvrtc_path);
    return nvrtc_;
  }

  // The form of a sealed region is derived once: costs are asked for many shapes.
  std::shared_ptr<const KnownForm> known_form(const ir::Region& region) const {
    const auto derive = [&] {
      return std::make_shared<const KnownForm>(options_.target, kinds_, region);
    };
    if (region.identity.empty()) return derive();
    const std::lock_guard lock(forms_mutex_);
    std::shared_ptr<const KnownForm>& known = forms_[region.identity];
    if (!known) known = derive();
    return known;
  }

  // What the region's kernel kinds answer, one after the other.
  template <typename Ask>
  std::vector<ir::Schedule> offered(const ir::Region& region, const Ask& ask) const {
    const auto known = known_form(region);
    const PlanInputs inputs = inputs_of(region, *known);
    std::vector<ir::Schedule> schedules;
    for (const KernelKind* kind : known->kinds)
      for (ir::Schedule& schedule : ask(*kind, inputs)) schedules.push_back(std::move(schedule));
    if (schedules.empty()) {
      throw Error(ErrorKind::Unsupported, "the region {} of kind {} has no kernel for {}",
                  region.name, ir::kind_name(known->form), options_.target.architecture);
    }
    return schedules;
  }

  PlanInputs inputs_of(const ir::Region& region, const KnownForm& known) const {
    return {options_.target, region, known.form, known.facts};
  }

  CudaOptions options_;
  KernelKinds kinds_;
  mutable std::mutex nvrtc_mutex_, forms_mutex_;
  mutable std::shared_ptr<const Nvrtc> nvrtc_;
  // by the region's identity
  mutable std::map<std::string, std::shared_ptr<const KnownForm>> forms_;
};

}  // namespace

std::unique_ptr<ir::Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

std::shared_ptr<const ir::Backend> with_target(const ir::Backend& backend,
                                               const std::function<void(CudaTarget&)>& change) {
  const auto* own = dynamic_cast<const CudaBackend*>(&backend);
  internal_check(own != nullptr, "the code generator is the one for CUDA");
  CudaOptions options = own->options();
  change(options.target);
  return std::make_shared<const CudaBackend>(options);
}

EmittedKernel cuda_kernel(const CudaTarget& target, const ir::Region& region,
                          const ir::Bucket& bucket, const ir::Schedule& schedule, bool checked) {
  const KernelKinds kinds = all_kernel_kinds();
  const KnownForm known(target, kinds, region);
  return emit(known, {target, region, known.form, known.facts}, bucket, schedule, checked);
}

}  // namespace anydim::codegen_cuda
