// The GPU campaign's worker: carries out what bench/campaign asks for, so that whoever drives it
// survives what a kernel does to the device. Without one, --plan fills a folder of kernels for it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/planned.h"
#include "bench/campaign/worker/campaign_cases.h"
#include "bench/campaign/worker/replaced_text.h"
#include "bench/no_device.h"
#include "codegen_cuda/backend.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tuner/cases.h"

namespace {

anydim::CompileTarget planned_target(const std::string& part,
                                     const anydim::CompileOptions& options) {
  anydim::CompileTarget target = anydim::planned_gpu(part, options);
  // Kernels that wait come with their checked forms, as where none of them has run yet.
  target.device = std::make_shared<anydim::bench::NoDevice>("one that ran nothing yet");
  return target;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace anydim;
  CLI::App app(
      "Carries out cases of the GPU campaign, read from standard input, one JSON object a line.",
      "campaign_worker");
  tools::CommonOptions common;
  tools::add_common_options(app, common);
  std::string part, device_text;
  app.add_option(
      "--plan", part,
      "compile for this GPU, which need not be there, and run nothing (h100, h200, ...)");
  app.add_option(
      "--device-text", device_text,
      "a folder of device functions (codegen_cuda/device/*.cuh) in place of those built in");
  CLI11_PARSE(app, argc, argv);
  try {
    const CompileOptions options = tools::compile_options(common);
    const auto replaced = device_text.empty() ? nullptr : campaign::read_replaced_text(device_text);
    const auto make = [&](bool checked) {
      CompileOptions with = options;
      with.checked_kernels = checked;
      CompileTarget target = part.empty() ? make_target(with) : planned_target(part, with);
      if (replaced != nullptr)
        target.backend = codegen_cuda::with_target(
            *target.backend,
            [&](codegen_cuda::CudaTarget& changed) { changed.replaced = replaced; });
      return target;
    };
    campaign::CampaignCases cases(options, make);
    tuner::run_cases([&](const nlohmann::json& wanted, const auto&) { return cases.run(wanted); },
                     std::cin, stdout);
    return 0;
  } catch (const Error& error) {
    tools::complain(fmt::format("campaign_worker: {}\n", error.what()));
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    tools::complain(fmt::format("campaign_worker: internal error, a bug here: {}\n", error.what()));
    return static_cast<int>(ErrorKind::Internal);
  }
}
