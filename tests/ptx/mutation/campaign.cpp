#include "tests/ptx/mutation/campaign.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {

namespace {

// What the first timing that fails says; empty: the mutant survived.
std::string run_all_timings(const MutationCase& mutation_case, const Module& module,
                            std::vector<bool>* executed_lines = nullptr) {
  for (const TimedRun& run : timed_runs()) {
    MachineOptions options;
    options.timing = run.timing;
    options.seed = run.seed;
    options.instruction_limit = 4 * mutation_case.instructions + 100'000;
    options.idle_limit = 100'000;
    options.executed_lines = executed_lines;
    std::string wrong = mutation_case.run(module, options);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

bool is_reached(const Mutant& mutant, const std::vector<bool>& executed) {
  return std::ranges::any_of(mutant.lines, [&](int line) {
    const auto index = static_cast<std::size_t>(line);
    return index < executed.size() && executed[index];
  });
}

}  // namespace

MutationResult run_mutants(const MutationCase& mutation_case, int threads) {
  MutationResult result;
  std::vector<bool> executed;
  result.baseline = run_all_timings(mutation_case, parse_ptx(mutation_case.ptx), &executed);
  if (!result.baseline.empty()) return result;
  std::vector<Mutant> mutants = mutants_of(mutation_case.ptx);
  result.unreached =
      std::erase_if(mutants, [&](const Mutant& mutant) { return !is_reached(mutant, executed); });
  result.mutants = mutants.size();
  std::vector<char> survived(mutants.size(), 0);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < mutants.size(); i = next++) {
      survived[i] =
          run_all_timings(mutation_case, parse_ptx(mutated(mutants[i], mutation_case.ptx))).empty()
              ? 1
              : 0;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    if (survived[i] != 0) result.survivors.push_back({mutants[i].name, mutants[i].lines.front()});
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> listed_survivors(const std::string& path,
                                                                  const std::string& case_name) {
  std::vector<std::pair<std::string, std::string>> listed;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(case_name + ": ")) continue;
    const std::string rest = line.substr(case_name.size() + 2);
    const std::size_t colon = rest.find(": ");
    listed.emplace_back(rest.substr(0, colon),
                        colon == std::string::npos ? "" : rest.substr(colon + 2));
  }
  return listed;
}

namespace {

void rewrite_case(const MutationResult& result, const std::string& path,
                  const std::string& case_name) {
  std::map<std::string, std::string> reasons;
  for (const auto& [mutant, reason] : listed_survivors(path, case_name)) reasons[mutant] = reason;
  std::string text;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(case_name + ": ")) text += line + "\n";
  }
  for (const Survivor& survivor : result.survivors)
    text += fmt::format("{}: {}: {}\n", case_name, survivor.name, reasons[survivor.name]);
  std::ofstream(path) << text;
}

}  // namespace

std::string compare_survivors(const MutationResult& result, const std::string& path,
                              const std::string& case_name) {
  if (!result.baseline.empty()) return "the kernel itself fails: " + result.baseline;
  if (std::getenv("ANYDIM_UPDATE_TESTS") != nullptr) rewrite_case(result, path, case_name);
  std::map<std::string, std::string> listed;
  for (const auto& [mutant, reason] : listed_survivors(path, case_name)) listed[mutant] = reason;
  std::string differences;
  for (const Survivor& survivor : result.survivors) {
    const auto found = listed.find(survivor.name);
    if (found == listed.end())
      differences +=
          fmt::format("survived, not listed: {} (line {})\n", survivor.name, survivor.line);
    else if (found->second.empty())
      differences += fmt::format("survived, listed without a reason: {} (line {})\n", survivor.name,
                                 survivor.line);
    if (found != listed.end()) listed.erase(found);
  }
  for (const auto& [mutant, reason] : listed)
    differences += fmt::format("listed, but caught or not there: {}\n", mutant);
  return differences;
}

}  // namespace anydim::ptx
