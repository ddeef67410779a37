#include "tests/fuzz/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "api/specialize.h"
#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"
#include "tests/fuzz/perturb.h"
#include "tests/support/host_kernels_gpu.h"

namespace anydim::tests {

using namespace ir;

namespace {

using Results = std::vector<Tensor>;

struct Failure {
  std::string stage, detail;
};

bool has_halves(const Function& function) {
  return std::ranges::any_of(function.values, [](const Value& value) {
    return value.type.is_tensor() &&
           (value.type.tensor.dtype == DType::F16 || value.type.tensor.dtype == DType::BF16);
  });
}

class Comparison {
 public:
  Comparison(const RandomGraph& graph, const CompileTarget& target, const AgreementOptions& options)
      : graph_(graph), target_(target), options_(options) {}

  Agreement run() {
    Module typed = graph_.module;
    try {
      stage_ = "infer types";
      infer_types(typed);
      if (!evaluate_all(typed)) return {.refused = true};
      tolerance_ = has_halves(typed.functions[0]) ? options_.half_tolerance : options_.tolerance;
      symbolic();
      fake_gpu();
      bucketed();
      exact();
      static_program();
    } catch (const Failure& failure) {
      found_.stage = failure.stage;
      found_.detail = failure.detail;
    } catch (const std::exception& error) {
      found_.stage = stage_;
      found_.detail = error.what();
    }
    return std::move(found_);
  }

 private:
  bool evaluate_all(const Module& typed) {
    stage_ = "reference evaluator";
    try {
      for (const auto& inputs : graph_.calls)
        wanted_.push_back(evaluate(typed, typed.functions[0], inputs));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
      return false;
    }
    return true;
  }

  CompileOptions compile_options(Policy policy) const {
    CompileOptions options;
    options.policies = {{"", policy}};
    options.threads = options_.threads;
    options.background = false;
    options.keep_kernels = !options_.cache.empty();
    options.cache_folder = options_.cache;
    return options;
  }

  std::shared_ptr<const runtime::Executable> compiled(Policy policy) {
    stage_ = fmt::format("{}: compile", name_of(policy));
    return compile_for(target_, graph_.module, compile_options(policy));
  }

  void symbolic() {
    runtime::Context context(compiled(Policy::Symbolic));
    symbolic_ = in_order(context, "symbolic");
    expect_right("symbolic", symbolic_);
    expect_same("symbolic: order of calls", reversed(context, "symbolic"), symbolic_);
  }

  // The same kernels, launched by the CUDA side of runtime.
  void fake_gpu() {
    stage_ = "fake GPU: compile";
    FakeCuda fake(host_kernel_gpu());
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake.driver()));
    CompileOptions options = compile_options(Policy::Symbolic);
    options.keep_kernels = false;
    runtime::Context context(
        compile_for({host_kernel_backend(target_.backend), device}, graph_.module, options));
    expect_same("fake GPU", in_order(context, "fake GPU"), symbolic_);
    expect_same("fake GPU: order of calls", reversed(context, "fake GPU"), symbolic_);
  }

  void bucketed() {
    auto executable = compiled(Policy::Bucketed);
    executable->kernels().complete();
    if (executable->kernels().progress().failed > 0)
      throw Failure{"bucketed: compile", "a kernel of a table does not compile"};
    runtime::Context context(executable);
    bucketed_ = in_order(context, "bucketed");
    expect_right("bucketed", bucketed_);
    expect_same("bucketed: order of calls", reversed(context, "bucketed"), bucketed_);
  }

  void exact() {
    auto executable = compiled(Policy::Exact);
    executable->kernels().complete();
    for (std::size_t call = 0; call < std::min(options_.exact_calls, graph_.calls.size()); ++call) {
      // From the last call on, which has the largest extents, and then the first.
      const std::size_t at = (graph_.calls.size() - 1 + call) % graph_.calls.size();
      runtime::Context context(executable);
      const Results before = run(context, "exact", at);
      // Later calls may meet regions whose extents do not differ between calls, which have kernels
      // of their own by then.
      if (call == 0) expect_same("exact: kernels of buckets", {before}, {bucketed_[at]});
      else expect_right("exact: kernels of buckets", at, before);
      executable->kernels().complete();
      const Results got = run(context, "exact", at);
      expect_right("exact", at, got);
      expect_same("exact: again", {run(context, "exact", at)}, {got});
    }
  }

  void static_program() {
    for (std::size_t tried = 0; tried < std::min(options_.static_calls, graph_.calls.size());
         ++tried) {
      const std::size_t at = (graph_.calls.size() - 1 + tried * 2) % graph_.calls.size();
      stage_ = "static: compile";
      Module module = graph_.module;
      fix(module, graph_.calls[at]);
      CompileOptions options = compile_options(Policy::Symbolic);
      options.static_only = true;
      std::shared_ptr<const runtime::Executable> executable;
      try {
        executable = compile_for(target_, std::move(module), options);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::Unsupported ||
            std::string(error.what()).find("static programs only") == std::string::npos)
          throw;
        ++found_.static_refusals;
        continue;
      }
      ++found_.static_runs;
      executable->kernels().complete();
      runtime::Context context(executable);
      const Results got = run(context, "static", at);
      expect_right("static", at, got);
      expect_same("static: again", {run(context, "static", at)}, {got});
    }
  }

  static void fix(Module& module, const Results& inputs) {
    const Function& main = module.functions[0];
    std::vector<anydim::InputShape> shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      shapes.push_back({main.values[main.body.parameters[i]].name, {}});
      for (const std::int64_t extent : inputs[i].dims()) shapes.back().dims.emplace_back(extent);
    }
    fix_shapes(module, shapes);
  }

  Results run(runtime::Context& context, const std::string& who, std::size_t call) {
    stage_ = fmt::format("{}: run", who);
    try {
      return context.run(graph_.calls[call]);
    } catch (const Error& error) {
      throw Failure{stage_, fmt::format("call {}: {}", call, error.what())};
    }
  }

  std::vector<Results> in_order(runtime::Context& context, const std::string& who) {
    std::vector<Results> all;
    for (std::size_t call = 0; call < graph_.calls.size(); ++call)
      all.push_back(run(context, who, call));
    return all;
  }

  std::vector<Results> reversed(runtime::Context& context, const std::string& who) {
    std::vector<Results> all(graph_.calls.size());
    for (std::size_t call = graph_.calls.size(); call-- > 0;) all[call] = run(context, who, call);
    return all;
  }

  void expect_right(const std::string& who, const std::vector<Results>& got) {
    for (std::size_t call = 0; call < got.size(); ++call) expect_right(who, call, got[call]);
  }

  void expect_right(const std::string& who, std::size_t call, const Results& got) {
    const std::string fault = difference(got, wanted_[call], tolerance_);
    if (fault.empty()) return;
    if (const auto perturbed = evaluate_perturbed(graph_, call);
        !difference(perturbed, wanted_[call], tolerance_ / 8).empty()) {
      found_.unstable = true;
      return;
    }
    throw Failure{who + ": results", fmt::format("call {}: {}", call, fault)};
  }

  void expect_same(const std::string& stage, const std::vector<Results>& got,
                   const std::vector<Results>& wanted) const {
    for (std::size_t call = 0; call < got.size(); ++call)
      for (std::size_t i = 0; i < got[call].size(); ++i)
        if (!got[call][i].same_bits(wanted[call][i]))
          throw Failure{stage, fmt::format("call {}: output {} has other bits", call, i)};
  }

  const RandomGraph& graph_;
  const CompileTarget& target_;
  const AgreementOptions& options_;
  double tolerance_ = 0;
  std::vector<Results> wanted_, symbolic_, bucketed_;
  std::string stage_;  // at work
  Agreement found_;
};

}  // namespace

Agreement agreement(const RandomGraph& graph, const CompileTarget& target,
                    const AgreementOptions& options) {
  return Comparison(graph, target, options).run();
}

}  // namespace anydim::tests
