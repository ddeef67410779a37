// One thread's place to run an executable: the virtual machine with its table of sizes, its arena and its outputs.
//
// A context keeps the memory of the largest shape it has met and no more. It is used by one thread at a time; results are the caller's and
// may be dropped on any thread, their memory then serves later calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/tensor.h"
#include "runtime/executable.h"
#include "runtime/memory.h"

namespace anydim::runtime {

// What one launch did; kept only where asked for.
struct LaunchRecord {
  std::int32_t kernel = 0;  // in Program::kernels
  std::int32_t met = 0;     // entry of its table that the keys belong to
  std::int32_t used = 0;    // entry whose kernel ran: `met`, or the general one while `met` isn't there
  KernelOrigin origin = KernelOrigin::Compiled;
  std::vector<std::int64_t> extents;  // of the region's symbols
  std::vector<std::int64_t> keys;     // what dispatch looked at
  std::int64_t tasks = 0;             // 0: nothing to do, not launched
  double seconds = 0;
  const std::string* source = nullptr;  // nodes it came from; lives as long as the executable
};

// Memory of the last call, in bytes.
struct CallMemory {
  std::int64_t arena = 0;
  std::int64_t scratch = 0;
  std::int64_t outputs = 0;
};

class Context {
 public:
  explicit Context(std::shared_ptr<const Executable> executable);

  // Inputs in the order of Program::inputs; they are read where they lie. Outputs in the order of Program::outputs.
  // Throws Error{Inputs} where inputs don't fit or a check fails, Error{Resource} over the memory limit or out of memory; the context can
  // be used again after either.
  std::vector<ir::Tensor> run(const std::vector<ir::Tensor>& inputs);

  void record_launches(bool wanted) { recording_ = wanted; }
  const std::vector<LaunchRecord>& launches() const { return records_; }  // of the last call, where recorded
  const CallMemory& memory() const { return memory_; }
  // Values of the slots after the last call (Program::Slot), for explaining it.
  const std::vector<std::int64_t>& slots() const { return slots_; }
  const Executable& executable() const { return *executable_; }

 private:
  struct Pick {
    std::int32_t met = 0, used = 0;
    const LoadedKernel* kernel = nullptr;
  };
  void refresh_tables();
  void execute(const ir::Program::RunStage& run);
  void execute(const ir::Program::Launch& launch);
  void execute(const ir::Program::Fetch& fetch);
  void fill_slots(std::size_t stage);
  void test_checks(const ir::Program::Stage& stage) const;
  void place_buffers(std::size_t stage);
  void spend(std::int64_t CallMemory::* part, std::int64_t bytes);
  Pick pick(std::int32_t kernel) const;
  std::byte* scratch_for(std::int64_t bytes_each, std::size_t& stride);
  [[noreturn]] void report(const ir::Program::Launch& launch, const ir::KernelError& error) const;
  std::vector<ir::Tensor> collect_outputs();
  ir::Tensor output_tensor(std::size_t index);

  std::shared_ptr<const Executable> executable_;
  const ir::Program& program_;
  std::shared_ptr<const KernelTables> tables_;
  std::uint64_t tables_version_ = 0;

  std::vector<std::int64_t> slots_;
  std::vector<std::int64_t> leaves_, extents_, keys_;  // of the instruction at work
  std::vector<void*> addresses_;                       // of Program::buffers
  std::vector<void*> arguments_;                       // of the launch at work
  const std::vector<ir::Tensor>* inputs_ = nullptr;    // of the call at work
  std::vector<GrowingMemory> segments_;                // of the arena, by stage
  GrowingMemory scratch_;
  BlockPool output_blocks_;
  std::vector<std::shared_ptr<std::byte>> outputs_;  // of the call at work, where allocated here
  CallMemory memory_;
  bool recording_ = false;
  std::vector<LaunchRecord> records_;
};

}  // namespace anydim::runtime
