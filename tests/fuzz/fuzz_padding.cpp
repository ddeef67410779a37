// Models that try to fool the proof of padding removal (padding_model.h), each checked
// (padding_check.h).
//
//   fuzz_padding SEED COUNT     COUNT models from SEED on
//   fuzz_padding --print SEED   the model
//
// A line for each failure, then one JSON object with the counts and the reasons why models stay
// padded; the exit code is 1 where anything failed.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/fuzz/padding_check.h"

namespace {

using namespace anydim::tests;

std::string without_names(std::string reason) {
  reason = std::regex_replace(reason, std::regex("%[A-Za-z0-9_]+"), "%");
  return std::regex_replace(reason, std::regex("-?[0-9][0-9.]*(e[+-]?[0-9]+)?"), "#");
}

int run(std::uint64_t first, std::uint64_t count) {
  std::string cache = (std::filesystem::temp_directory_path() / "anydim_padding_XXXXXX").string();
  if (mkdtemp(cache.data()) == nullptr) throw std::runtime_error("no temporary folder for kernels");
  std::size_t packed = 0, failed = 0, calls = 0, packed_calls = 0, not_finite = 0, unsteady = 0,
              kept_rows = 0, cut = 0, limited = 0, ranged = 0;
  std::map<std::string, std::size_t> reasons;
  std::map<std::string, std::array<std::size_t, 2>> kinds;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const PaddingModel model = padding_model(seed);
    const PaddingReport report = check_padding(model, seed, cache);
    calls += report.calls;
    packed_calls += report.packed_calls;
    not_finite += report.hidden_not_finite;
    unsteady += report.unsteady;
    cut += report.cut_calls;
    limited += report.limited;
    ranged += report.ranged;
    kept_rows += report.hidden_rows_kept_because.empty() ? 0 : 1;
    ++kinds[model.what][report.padded_because.empty() ? 0 : 1];
    if (report.padded_because.empty()) ++packed;
    else ++reasons[without_names(report.padded_because)];
    if (report.failure.empty()) continue;
    ++failed;
    fmt::print("seed {} ({}, {}): {}\n", seed, model.what,
               report.padded_because.empty() ? "packed" : "padded", report.failure);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(cache);
  fmt::print("{}\n", nlohmann::json{{"models", count},
                                    {"failed", failed},
                                    {"packed", packed},
                                    {"calls", calls},
                                    {"packed_calls", packed_calls},
                                    {"hidden_not_finite", not_finite},
                                    {"unsteady_calls", unsteady},
                                    {"cut_calls", cut},
                                    {"limited_inputs", limited},
                                    {"ranges_of_kept_rows", ranged},
                                    {"hidden_rows_kept", kept_rows},
                                    {"packed_and_padded_by_kind", kinds},
                                    {"padded_because", reasons}}
                         .dump(2));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 3 && std::string(argv[1]) == "--print") {
    fmt::print("{}", padding_model(std::stoull(argv[2])).text);
    return 0;
  }
  if (argc != 3) throw std::runtime_error("usage: fuzz_padding SEED COUNT | --print SEED");
  return run(std::stoull(argv[1]), std::stoull(argv[2]));
} catch (const std::exception& error) {
  fmt::print(stderr, "fuzz_padding: {}\n", error.what());
  return 2;
}
