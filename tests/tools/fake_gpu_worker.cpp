// The campaign's worker over the PTX interpreter: usage: fake_gpu_worker PART. Cases of the GPU campaign run through it without a GPU; its times mean nothing.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/campaign/worker/campaign_cases.h"
#include "tests/support/pretended_gpu.h"
#include "tools/cases.h"

namespace anydim {
namespace {

int work(const char* part) {
  tests::PretendedGpu pretended(part);
  CompileOptions options;
  options.threads = 1;
  options.keep_kernels = false;
  campaign::CampaignCases cases(options,
                                [&](bool checked) {
                                  pretended.cuda.checked = checked;
                                  return CompileTarget{codegen_cuda::make_cuda_backend(pretended.cuda), pretended.device};
                                },
                                {pretended.cuda.target.architecture, campaign::RawCode::Ptx});
  try {
    tools::run_cases([&](const nlohmann::json& wanted, const auto&) { return cases.run(wanted); }, std::cin);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), pretended.gpu->findings().c_str());
    return static_cast<int>(error.kind());
  }
}

}  // namespace
}  // namespace anydim

int main(int argc, char** argv) { return argc == 2 ? anydim::work(argv[1]) : 2; }
