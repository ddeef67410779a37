#include "api/options.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "ir/error.h"
#include "runtime/worker_pool.h"

namespace anydim {

DimRange parse_dim_range(std::string_view text) {
  const auto wrong = [&] {
    return Error(ErrorKind::CommandLine,
                 "--dim {} is not NAME=LOW:HIGH[:MULTIPLE] with 0 <= LOW <= HIGH and MULTIPLE >= "
                 "1, e.g. sequence=1:512",
                 text);
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) throw wrong();
  DimRange range{.symbol = std::string(text.substr(0, equals))};
  std::string_view rest = text.substr(equals + 1);
  std::vector<std::int64_t> numbers;
  while (numbers.size() < 3) {
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (fault != std::errc{}) throw wrong();
    numbers.push_back(number);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest.front() != ':' || numbers.size() == 3) throw wrong();
    rest.remove_prefix(1);
  }
  if (numbers.size() < 2) throw wrong();
  range.low = numbers[0];
  range.high = numbers[1];
  if (numbers.size() == 3) range.multiple = numbers[2];
  if (range.low < 0 || range.high < range.low || range.multiple < 1) throw wrong();
  return range;
}

PolicyChoice parse_policy(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string region(equals == std::string_view::npos ? "" : text.substr(0, equals));
  const std::string_view name = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if (const std::optional<Policy> policy = ir::policy_of(name)) return {region, *policy};
  throw Error(ErrorKind::CommandLine, "--policy {} is not [REGION=]symbolic|bucketed|exact|library",
              text);
}

DeviceKind parse_device(std::string_view text) {
  if (text == "cpu") return DeviceKind::Cpu;
  if (text == "cuda") return DeviceKind::Cuda;
  throw Error(ErrorKind::CommandLine, "--device {} is neither cpu nor cuda", text);
}

ir::DType parse_precision(std::string_view text) {
  for (const ir::DType precision : {ir::DType::F32, ir::DType::BF16, ir::DType::F16, ir::DType::I8})
    if (text == precision_name(precision)) return precision;
  throw Error(ErrorKind::CommandLine, "--precision {} is not f32, bf16, f16 or int8", text);
}

std::string_view precision_name(ir::DType precision) {
  return precision == ir::DType::I8 ? "int8" : ir::name_of(precision);
}

void require_device_has(const CompileOptions& options) {
  if (options.device == DeviceKind::Cuda) {
    if (options.precision == ir::DType::I8)
      throw Error(ErrorKind::CommandLine,
                  "--precision int8 is not generated for CUDA; use --precision bf16 or f16");
    return;
  }
  if (options.precision == ir::DType::F16)
    throw Error(ErrorKind::CommandLine,
                "--precision f16 is not generated for the CPU, whose 16-bit products are bf16; use "
                "--precision bf16");
  if (options.f32_products == F32Products::Tf32)
    throw Error(ErrorKind::CommandLine, "--f32-products tf32 needs --device cuda; use exact");
  require_device_serves(options.device, options.policies);
}

void require_device_serves(DeviceKind device, const std::vector<PolicyChoice>& policies) {
  for (const auto& [region, policy] : policies)
    if (policy == Policy::Library && device != DeviceKind::Cuda)
      throw Error(ErrorKind::CommandLine,
                  "the policy library needs --device cuda; use symbolic or bucketed");
}

MaskedRows parse_masked_rows(std::string_view text) {
  if (text == "keep") return MaskedRows::Keep;
  if (text == "zero") return MaskedRows::Zero;
  throw Error(ErrorKind::CommandLine, "--masked-rows {} is neither keep nor zero", text);
}

F32Products parse_f32_products(std::string_view text) {
  if (text == "exact") return F32Products::Exact;
  if (text == "tf32") return F32Products::Tf32;
  throw Error(ErrorKind::CommandLine, "--f32-products {} is neither exact nor tf32", text);
}

int available_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

int most_threads() { return runtime::WorkerPool::most_threads; }

int thread_count(const CompileOptions& options) {
  if (options.threads > most_threads())
    throw Error(ErrorKind::CommandLine,
                "threads: expected at most {}, got {}; a model "
                "computes with no more",
                most_threads(), options.threads);
  return options.threads > 0 ? options.threads : std::min(available_threads(), most_threads());
}

}  // namespace anydim
