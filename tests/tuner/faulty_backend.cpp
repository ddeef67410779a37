#include "tests/tuner/faulty_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace anydim::tuner::testing {

namespace {

enum class Fault { None, Signal, Abort, Loop, OutOfBounds, Allocate, Wrong };

Fault fault_of(std::int64_t variant) {
  switch (variant % 20) {
    case 1: return Fault::Signal;
    case 4: return Fault::Abort;
    case 7: return Fault::Loop;
    case 10: return Fault::OutOfBounds;
    case 13: return Fault::Allocate;
    case 16: return Fault::Wrong;
    default: return Fault::None;
  }
}

ir::Schedule without_variant(ir::Schedule schedule) {
  std::erase_if(schedule.fields, [](const auto& field) { return field.first == "variant"; });
  return schedule;
}

ir::CompiledKernel machine_code(std::initializer_list<int> bytes) {
  ir::CompiledKernel kernel;
  for (const int byte : bytes) kernel.code.push_back(static_cast<std::byte>(byte));
  kernel.tasks = ir::Dim(1);
  return kernel;
}

int byte_of(std::int64_t value, int which) {
  return static_cast<int>((value >> (8 * which)) & 0xff);
}

// Kernels take `call` in rdi; its first member is the table of buffers.
ir::CompiledKernel writes_beside(std::size_t buffer, std::int64_t offset) {
  const auto at = static_cast<std::int64_t>(8 * buffer);
  return machine_code({0x48, 0x8b, 0x07,  // mov rax, [rdi]
                       0x48, 0x8b, 0x80, byte_of(at, 0), byte_of(at, 1), byte_of(at, 2),
                       byte_of(at, 3),  // mov rax, [rax + at]
                       0xc6, 0x80, byte_of(offset, 0), byte_of(offset, 1), byte_of(offset, 2),
                       byte_of(offset, 3),
                       0x01,  // mov byte [rax + offset], 1
                       0xc3});
}

[[noreturn]] void allocate_without_end() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (;;) blocks.push_back(std::make_unique_for_overwrite<char[]>(std::size_t{256} << 20));
}

}  // namespace

Outcome expected_outcome(std::int64_t variant) {
  switch (fault_of(variant)) {
    case Fault::None: return Outcome::Ok;
    case Fault::Signal:
    case Fault::Abort: return Outcome::Crashed;
    case Fault::Loop: return Outcome::Hung;
    case Fault::OutOfBounds: return Outcome::OutOfBounds;
    case Fault::Allocate: return Outcome::OutOfMemory;
    case Fault::Wrong: return Outcome::Wrong;
  }
  std::abort();
}

std::vector<ir::Schedule> FaultyBackend::space(const ir::Region& region,
                                               const ir::Bucket& bucket) const {
  if (variants_ == 0) return inner().space(region, bucket);
  std::vector<ir::Schedule> all = candidates(region, bucket);
  const std::vector<ir::Schedule> real = inner().space(region, bucket);
  for (std::int64_t variant = 0; variant < variants_; ++variant) {
    ir::Schedule schedule = real[static_cast<std::size_t>(variant) % real.size()];
    schedule.fields.emplace_back("variant", variant);
    all.push_back(std::move(schedule));
  }
  return all;
}

double FaultyBackend::estimate(const ir::Region& region, const ir::Schedule& schedule,
                               std::span<const std::int64_t> keys, int threads) const {
  return inner().estimate(region, without_variant(schedule), keys, threads);
}

ir::CompiledKernel FaultyBackend::compile(const ir::Region& region, const ir::Bucket& bucket,
                                          const ir::Schedule& schedule) const {
  const std::int64_t variant = schedule.find("variant").value_or(0);
  const bool second_way = variant / 20 % 2 == 1;
  const std::size_t result = region.body.body.parameters.size();
  switch (fault_of(variant)) {
    case Fault::None: break;
    case Fault::Signal:
      if (second_way) return machine_code({0x0f, 0x0b});          // ud2
      return machine_code({0x31, 0xc0, 0xc6, 0x00, 0x01, 0xc3});  // a write through a null pointer
    case Fault::Abort:
      if (second_way) std::abort();
      return machine_code({0xb8, 39,   0,    0,   0, 0x0f, 0x05, 0x89, 0xc7,  // edi = getpid()
                           0xbe, 6,    0,    0,   0, 0xb8, 62,   0,    0,
                           0,    0x0f, 0x05, 0xc3});  // kill(edi, SIGABRT)
    case Fault::Loop:
      while (second_way) pause();
      return machine_code({0xeb, 0xfe});
    case Fault::OutOfBounds: return writes_beside(result, second_way ? -1 : -70000);
    case Fault::Allocate: {
      if (second_way) allocate_without_end();
      ir::CompiledKernel kernel = machine_code({0xc3});
      kernel.scratch_bytes = ir::Dim(std::int64_t{1} << 44);
      return kernel;
    }
    case Fault::Wrong: {
      ir::CompiledKernel kernel = inner().compile(region, bucket, without_variant(schedule));
      kernel.tasks = kernel.tasks - 1;                     // the last task is forgotten
      std::get<ir::CpuEntries>(kernel.device).sizes = -1;  // its own code knows better
      return kernel;
    }
  }
  return inner().compile(region, bucket, without_variant(schedule));
}

}  // namespace anydim::tuner::testing
