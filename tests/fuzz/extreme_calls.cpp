// Calls of the graphs that extremes.cpp draws.
#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "runtime/context.h"
#include "runtime/cpu_device.h"
#include "runtime/frame_memory.h"
#include "runtime/guarded_memory.h"
#include "tests/fuzz/extremes.h"
#include "tests/fuzz/perturb.h"

namespace anydim::tests {

using namespace ir;

namespace {

constexpr std::int64_t most_memory = std::int64_t{64} << 20;  // bytes of one call

// What a call came to.
struct Outcome {
  std::vector<Tensor> results;
  std::optional<ErrorKind> error;  // Resource also where the system has no more memory
  std::string message;
};

template <typename Work>
Outcome outcome_of(Work work) {
  try {
    return {work(), std::nullopt, {}};
  } catch (const Error& error) {
    return {{}, error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return {{}, ErrorKind::Resource, "std::bad_alloc"};
  }
}

class GuardedFrameMemory : public runtime::HostFrameMemory {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) override {
    auto block = std::make_shared<runtime::GuardedMemory>(bytes);
    std::byte* place = block->data();
    return {std::move(block), place};
  }
  bool apart() const override { return true; }
};

}  // namespace

CompileTarget guarded_target() {
  CompileTarget target = make_target();
  target.device = runtime::make_cpu_device([] { return std::make_unique<GuardedFrameMemory>(); });
  return target;
}

std::string extreme_disagreement(const RandomGraph& graph, std::uint64_t seed,
                                 const CompileTarget& target, ExtremeCounts& counts) {
  CompileOptions options;
  options.policies = {{"", seed % 2 == 0 ? Policy::Symbolic : Policy::Bucketed}};
  options.threads = 1;
  options.background = false;
  options.keep_kernels = false;
  options.memory_limit = most_memory;
  std::shared_ptr<const runtime::Executable> executable;
  const Outcome compiled = outcome_of([&] {
    executable = compile_for(target, graph.module, options);
    return std::vector<Tensor>{};
  });
  if (compiled.error) {
    if (*compiled.error == ErrorKind::Unsupported || *compiled.error == ErrorKind::Malformed) {
      ++counts.graphs_refused;
      return {};
    }
    return "compile: " + compiled.message;
  }
  for (std::size_t call = 0; call < graph.calls.size(); ++call) {
    ++counts.cases;
    const Outcome got =
        outcome_of([&] { return runtime::Context(executable).run(graph.calls[call]); });
    if (got.error == ErrorKind::Resource) {
      ++counts.large;
      continue;
    }
    const Outcome wanted =
        outcome_of([&] { return evaluate_reference(graph.module, graph.calls[call]); });
    if (wanted.error == ErrorKind::Resource) {
      ++counts.large;
      continue;
    }
    if (got.error == ErrorKind::Internal || wanted.error == ErrorKind::Internal)
      return fmt::format("call {}: {}", call,
                         got.error == ErrorKind::Internal ? got.message : wanted.message);
    if (got.error && !wanted.error &&
        got.message.find("has no 64-bit value") != std::string::npos) {
      ++counts.uncounted;
      continue;
    }
    if (got.error.has_value() != wanted.error.has_value())
      return fmt::format("call {}: {}", call,
                         got.error ? "refused, the evaluator gives a result: " + got.message
                                   : "a result, the evaluator refuses: " + wanted.message);
    if (got.error) {
      ++counts.refused;
      continue;
    }
    const std::string fault = difference(got.results, wanted.results, 2e-3);
    if (!fault.empty()) return fmt::format("call {}: {}", call, fault);
    ++counts.right;
  }
  return {};
}

}  // namespace anydim::tests
