#include "api/system.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>

#include "api/compile.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "runtime/cuda_device.h"
#include "runtime/kernel_cache.h"

namespace anydim {

namespace {

std::string after_colon(const std::string& line) {
  const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
  return start == std::string::npos ? "" : line.substr(start);
}

std::string field_of(const char* file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(name)) return after_colon(line);
  }
  return "unknown";
}

std::string limit_text(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY
             ? "none"
             : fmt::format("{} bytes", static_cast<unsigned long long>(limit.rlim_cur));
}

Finding attempt(const std::string& name, const std::function<std::string()>& find) {
  try {
    return {name, find()};
  } catch (const std::exception& error) {
    return {name, error.what(), true};
  }
}

std::string cache_state(const CompileOptions& options) {
  const runtime::KernelCache cache(options.cache_folder.value_or(runtime::default_cache_folder()),
                                   {});
  if (!cache.usable()) return cache.fault();
  const auto contents = cache.contents();
  return fmt::format("{}, {} kernels, {} bytes", cache.folder().string(), contents.files,
                     contents.bytes);
}

std::string gpu_text() {
  const runtime::cuda::Properties properties =
      runtime::cuda::open_cuda_device()->context().properties();
  return fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors at up to {} MHz, {} bytes, driver for CUDA "
      "{}",
      properties.name, properties.capability / 10, properties.capability % 10,
      properties.multiprocessors, properties.clock_khz / 1000, properties.memory_bytes,
      runtime::cuda::version_text(properties.driver_version));
}

std::string tiny_program(CompileOptions options) {
  options.keep_kernels = false;
  options.dims.clear();
  options.outputs.clear();
  options.policies.clear();
  ir::Module module = ir::parse(
      "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32] {\n  %y = add(%x, %x)\n  return %y\n}\n");
  runtime::Context context(compile(std::move(module), options));
  const auto outputs = context.run({ir::Tensor::of<float>(ir::DType::F32, {3}, {1, 2, 3})});
  internal_check(outputs.at(0).real_at(2) == 6, "3 + 3 is 6");
  return "compiles and runs";
}

}  // namespace

std::string processor_name() { return field_of("/proc/cpuinfo", "model name"); }

std::vector<Finding> examine_system(const CompileOptions& options) {
  std::vector<Finding> findings;
  findings.push_back({"processor", processor_name()});
  findings.push_back({"threads", fmt::format("{} may run at once", available_threads())});
  findings.push_back(
      {"memory", fmt::format("{} available of {}", field_of("/proc/meminfo", "MemAvailable"),
                             field_of("/proc/meminfo", "MemTotal"))});
  findings.push_back({"address space limit", limit_text(RLIMIT_AS)});
  findings.push_back(
      attempt("code target", [&] { return make_target(options).backend->target(); }));
  findings.push_back(
      attempt("code generator", [&] { return make_target(options).backend->generator(); }));
#ifdef ANYDIM_ONNX
  findings.push_back({"model formats", "ONNX (.onnx), text form"});
#else
  findings.push_back({"model formats", "text form (built without the ONNX reader)"});
#endif
  Finding gpu = attempt("gpu", gpu_text);
  gpu.missing = gpu.missing && options.device == DeviceKind::Cuda;
  findings.push_back(std::move(gpu));
  findings.push_back({"kernel cache", cache_state(options)});
  findings.push_back(attempt("tiny program", [&] { return tiny_program(options); }));
  return findings;
}

}  // namespace anydim
