// The GPU campaign's worker: carries out what bench/campaign asks for, so that whoever drives it
// survives what a kernel does to the device. Options as those of `anydim worker`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/campaign/worker/campaign_cases.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tuner/cases.h"

int main(int argc, char** argv) {
  using namespace anydim;
  CLI::App app(
      "Carries out cases of the GPU campaign, read from standard input, one JSON object a line.",
      "campaign_worker");
  tools::CommonOptions common;
  tools::add_common_options(app, common);
  CLI11_PARSE(app, argc, argv);
  try {
    campaign::CampaignCases cases(tools::compile_options(common));
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
