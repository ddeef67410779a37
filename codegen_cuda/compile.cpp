#include "codegen_cuda/compile.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace anydim::codegen_cuda {

namespace {

// The number that stands before `what`, e.g. 40 in "Used 40 registers"; 0 where there is none.
std::int64_t number_before(std::string_view line, std::string_view what) {
  const std::size_t end = line.find(what);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

template <typename Visit>
void for_lines(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

ir::KernelResources resources_in(const std::string& log) {
  ir::KernelResources resources;
  const auto raise = [](std::int64_t& most, std::int64_t value) { most = std::max(most, value); };
  for_lines(log, [&](std::string_view line) {
    raise(resources.registers, number_before(line, " registers"));
    raise(resources.stack_bytes, number_before(line, " bytes stack frame"));
    raise(resources.spills,
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads"));
    raise(resources.shared_bytes, number_before(line, " bytes smem"));
    if (line.find("(C75") != std::string_view::npos) resources.remarks += std::string(line) + "\n";
  });
  return resources;
}

ir::CompiledKernel compile_emitted(const Nvrtc& nvrtc, const CudaTarget& target, CudaOutput output,
                                   const EmittedKernel& emitted, const std::string& name) {
  NvrtcOutput produced = nvrtc.compile(emitted.source, name, target.architecture, output);
  ir::CompiledKernel kernel;
  kernel.resources = resources_in(produced.log);
  kernel.resources.code_bytes = static_cast<std::int64_t>(produced.code.size());
  std::int64_t dynamic = 0;
  for (const ir::DeviceLaunch& launch : emitted.launches)
    dynamic = std::max(dynamic, launch.shared_bytes);
  kernel.resources.shared_bytes += dynamic;
  kernel.code = std::move(produced.code);
  kernel.scratch_bytes = emitted.workspace_bytes;
  kernel.device = ir::CudaLaunches{.launches = emitted.launches, .waits = emitted.waits};
  return kernel;
}

}  // namespace anydim::codegen_cuda
