// The campaign's worker over the PTX interpreter: usage: fake_gpu_worker PART
// [CACHE_FOLDER]. Cases of the GPU campaign run through it without a GPU; its times mean nothing.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/campaign/worker/campaign_cases.h"
#include "tests/support/fake_part.h"
#include "tuner/cases.h"

namespace anydim {
namespace {

int work(const char* part, const char* cache_folder) {
  tests::FakePart fake(part);
  CompileOptions options;
  options.threads = 1;
  options.keep_kernels = cache_folder != nullptr;
  if (cache_folder != nullptr) options.cache_folder = cache_folder;
  campaign::CampaignCases cases(options,
                                [&](bool checked) {
                                  fake.cuda.checked = checked;
                                  return CompileTarget{codegen_cuda::make_cuda_backend(fake.cuda),
                                                       fake.device};
                                },
                                {fake.cuda.target.architecture, campaign::RawCode::Ptx});
  try {
    tuner::run_cases([&](const nlohmann::json& wanted, const auto&) { return cases.run(wanted); },
                     std::cin, stdout);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), fake.gpu->findings().c_str());
    return static_cast<int>(error.kind());
  }
}

}  // namespace
}  // namespace anydim

int main(int argc, char** argv) {
  return argc == 2 || argc == 3 ? anydim::work(argv[1], argc == 3 ? argv[2] : nullptr) : 2;
}
