#include "tests/codegen_cpu/kernel_harness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/error.h"
#include "ir/host_functions.h"
#include "runtime/code_memory.h"
#include "tests/codegen_cpu/tile_emulator.h"

namespace anydim::codegen_cpu::testing {

namespace {

constexpr unsigned char guard_byte = 0xa5;

// Memory whose last byte is followed by a page that may not be touched.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes, bool aligned_start = false) : bytes_(bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (bytes + page - 1) / page * page + page;
    mapped_ = used + page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + used, page, PROT_NONE) != 0)
      throw std::runtime_error("no memory for a guarded buffer");
    start_ = base_ + used - (aligned_start ? (bytes + 63) / 64 * 64 : bytes);
    std::memset(base_, guard_byte, used);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(base_, mapped_); }
  void* data() const { return start_; }
  std::size_t bytes() const { return bytes_; }
  bool unharmed() const {
    return std::all_of(static_cast<const unsigned char*>(base_),
                       static_cast<const unsigned char*>(start_),
                       [](unsigned char byte) { return byte == guard_byte; });
  }

 private:
  std::size_t bytes_, mapped_ = 0;
  unsigned char *base_ = nullptr, *start_ = nullptr;
};

class MappedCode {
 public:
  explicit MappedCode(const ir::CompiledKernel& kernel) : bytes_(kernel.code.size()) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::runtime_error("no memory for code");
    std::memcpy(base_, kernel.code.data(), bytes_);
    if (mprotect(base_, bytes_, PROT_READ | PROT_EXEC) != 0)
      throw std::runtime_error("code cannot be made executable");
    entry_ =
        reinterpret_cast<ir::KernelEntry>(static_cast<std::byte*>(base_) + kernel.cpu().kernel);
  }
  MappedCode(const MappedCode&) = delete;
  ~MappedCode() { munmap(base_, bytes_); }
  ir::KernelEntry entry() const { return entry_; }

 private:
  std::size_t bytes_;
  void* base_ = nullptr;
  ir::KernelEntry entry_ = nullptr;
};

}  // namespace

std::vector<Target> targets() {
  // Instructions for bf16 and bytes make no difference to anything but products of these.
  std::vector<Target> result;
  Target best = detect_target();
  best.amx = false;
  for (const NamedTarget& named : named_targets())
    if (named.target.level < best.level && !named.target.byte_dots) result.push_back(named.target);
  result.push_back(best);
  return result;
}

std::vector<Target> all_targets() {
  std::vector<Target> result;
  for (const NamedTarget& named : named_targets()) {
    try {
      result.push_back(detect_target(named.name));
    } catch (const Error&) {  // this processor lacks it
    }
  }
  Target emulated = detect_target();
  emulated.amx = true;
  result.push_back(emulated);
  return result;
}

TestKernel compile(const TestRegion& region, const Target& target, const ir::Bucket& bucket,
                   const ir::Schedule& schedule) {
  const bool emulated = target.amx && !detect_target().amx;
  const std::function<void(llvm::Module&)> rewrite =
      emulated ? emulate_tiles : std::function<void(llvm::Module&)>{};
  return {
      .kernel = compile_form(target, region.region, prepared(target, region.region, region.form),
                             bucket, schedule, rewrite),
      .bucket = bucket,
      .schedule = schedule};
}

namespace {

// What the region's kind answers.
template <typename Ask>
std::vector<ir::Schedule> asked(const TestRegion& region, const Target& target, const Ask& ask) {
  AccessStrides strides;
  LeftReuse left_reuse;
  const ir::LoopForm form = prepared(target, region.region, region.form);
  const PlanInputs inputs{.target = target,
                          .region = region.region,
                          .form = form,
                          .strides = strides,
                          .left_reuse = left_reuse};
  return ask(kernel_kind_of(form), inputs);
}

}  // namespace

std::vector<ir::Schedule> candidates(const TestRegion& region, const Target& target,
                                     const ir::Bucket& bucket) {
  return asked(region, target, [&](const KernelKind& kind, const PlanInputs& inputs) {
    return kind.candidates(inputs, bucket);
  });
}

std::vector<ir::Schedule> space(const TestRegion& region, const Target& target,
                                const ir::Bucket& bucket) {
  return asked(region, target, [&](const KernelKind& kind, const PlanInputs& inputs) {
    return kind.space(inputs, bucket);
  });
}

std::vector<ir::Tensor> run(const TestRegion& region, const Target& target,
                            const TestKernel& kernel,
                            const std::map<std::string, std::int64_t>& symbols,
                            const std::vector<ir::Tensor>& inputs, int parts,
                            ir::KernelError* failure) {
  const ir::Function& body = region.region.body;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<void*> pointers;
  const auto add = [&](std::size_t bytes) {
    buffers.push_back(std::make_unique<GuardedBuffer>(bytes));
    pointers.push_back(buffers.back()->data());
    return buffers.back()->data();
  };
  AccessStrides strides;
  LeftReuse left_reuse;
  const ir::LoopForm form = prepared(target, region.region, region.form);
  const PlanInputs plan{.target = target,
                        .region = region.region,
                        .form = form,
                        .strides = strides,
                        .left_reuse = left_reuse};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ir::Tensor tensor = inputs[i];
    const KernelKind& kind = kernel_kind_of(form);
    if (const auto layout = kind.packed_layout(plan, i))
      tensor = kind.pack(plan, i, *layout, tensor, fresh_tensor);
    std::memcpy(add(tensor.bytes().size()), tensor.bytes().data(), tensor.bytes().size());
  }
  std::vector<ir::Tensor> outputs;
  for (const ir::ValueId value : body.body.results) {
    const ir::TensorType& type = body.tensor_type(value);
    outputs.emplace_back(type.dtype, values_at(type.dims, symbols));
    std::memset(add(outputs.back().bytes().size()), 0xff, outputs.back().bytes().size());
  }
  std::vector<std::int64_t> extents;
  for (const std::string& name : body.symbols.names()) extents.push_back(symbols.at(name));
  ir::KernelError error;
  const ir::HostFunctions host = ir::host_functions();
  const ir::KernelCall call{
      .buffers = pointers.data(), .extents = extents.data(), .error = &error, .host = &host};
  const std::int64_t tasks = value_at(kernel.kernel.tasks, symbols);
  const MappedCode code(kernel.kernel);
  const auto launch = [&] {
    for (std::int64_t part = parts; part-- > 0;) {
      const std::int64_t begin = tasks * part / parts, end = tasks * (part + 1) / parts;
      GuardedBuffer scratch(
          static_cast<std::size_t>(value_at(kernel.kernel.scratch_bytes, symbols)), true);
      runtime::call_generated(code.entry(), &call, begin, end, static_cast<void*>(scratch.data()));
      if (!scratch.unharmed()) throw std::runtime_error("the kernel wrote before its scratch");
    }
  };
  launch();
  if (const std::string fault = take_tile_fault(); !fault.empty()) throw std::runtime_error(fault);
  if (failure) *failure = error;
  else if (error.check != -1)
    throw std::runtime_error("check " + std::to_string(error.check) + " failed with " +
                             std::to_string(error.value));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]->unharmed())
      throw std::runtime_error("the kernel wrote before buffer " + std::to_string(i));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto bytes = outputs[i].mutable_bytes();
    std::memcpy(bytes.data(), pointers[inputs.size() + i], bytes.size());
  }
  for (const std::size_t parameter : kernel_kind_of(plan.form).overwritable(plan)) {
    if (error.check != -1) break;
    const auto bytes = inputs[parameter].bytes();
    const GuardedBuffer both(bytes.size());
    std::memcpy(both.data(), bytes.data(), bytes.size());
    void* const before = std::exchange(pointers[parameter], both.data());
    pointers[inputs.size()] = both.data();
    launch();
    if (std::memcmp(both.data(), outputs[0].bytes().data(), bytes.size()) != 0 || !both.unharmed())
      throw std::runtime_error("the result differs in the place of parameter " +
                               std::to_string(parameter));
    pointers[parameter] = before;
  }
  return outputs;
}

}  // namespace anydim::codegen_cpu::testing
