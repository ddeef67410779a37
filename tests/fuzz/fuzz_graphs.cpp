// Random graphs on everything that computes them (agreement.h), and what fails made small.
//
//   fuzz_graphs SEED COUNT [FOLDER]             COUNT graphs from SEED on; reduced failures go to
//                                               FOLDER (default: here) as fuzz_SEED.test
//   fuzz_graphs --case FILE                     the cases of a file
//   fuzz_graphs --print SEED                    the graph as a case
//   fuzz_graphs --extremes SEED COUNT [FOLDER]  integers of calls at the ends of their range
//                                               (extremes.h); failures as extremes_SEED.test
//   fuzz_graphs --onnx SEED COUNT FOLDER        those with an ONNX form as ONNX tests
//                                               FOLDER/seed_N (onnx_peer.py runs them)
//
// Batches run in processes of their own: a crash or a hang counts as a failure of its graph and
// ends nothing else. The last line is a JSON object with the counts; the exit code is 1 where
// anything failed. A failure becomes a test when its file moves to tests/fuzz/cases.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fuzz/agreement.h"
#include "tests/fuzz/apart.h"
#include "tests/fuzz/case_file.h"
#include "tests/fuzz/extremes.h"
#ifdef ANYDIM_ONNX
#include "tests/fuzz/onnx_export.h"
#endif
#include "tests/fuzz/reduction.h"

namespace {

using namespace anydim;
using namespace anydim::tests;

constexpr std::uint64_t batch = 50;
constexpr int seconds_a_graph = 120;

struct Counts {
  std::uint64_t graphs = 0, failed = 0, unstable = 0, refused = 0, static_runs = 0,
                static_refusals = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::string name =
        (std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                             : std::filesystem::temp_directory_path()) /
        "anydim_fuzz_XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary folder for kernels");
    options_.cache = name;
  }
  ~Fuzzer() {
    std::error_code ignored;
    std::filesystem::remove_all(options_.cache, ignored);
  }

  void run(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t seed = first; seed < first + count;) {
      const std::uint64_t end = std::min(first + count, seed + batch);
      const ApartResult result = run_apart(
          [&](const auto& say) {
            const CompileTarget target = make_target();
            for (std::uint64_t each = seed; each < end; ++each) {
              say(fmt::format("start {}\n", each));
              say(line_of(agreement(random_graph(each, whole_language), target, options_)));
            }
          },
          seconds_a_graph);
      seed = read_report(result, seed);
    }
  }

  // What becomes of one graph in a process of its own: "" or "stage\ndetail".
  std::string failure(const RandomGraph& graph) const {
    const ApartResult result = run_apart(
        [&](const auto& say) {
          const Agreement found = agreement(graph, make_target(), options_);
          if (!found) say(found.stage + "\n" + found.detail);
        },
        seconds_a_graph);
    return result.death.empty() ? result.said : "crash\n" + result.death + " " + result.said;
  }

  const Counts& counts() const { return counts_; }

 private:
  static std::string line_of(const Agreement& found) {
    return fmt::format("{} {} {} {} {}\n", found ? "right" : "wrong", found.unstable ? 1 : 0,
                       found.refused ? 1 : 0, found.static_runs, found.static_refusals);
  }

  // The seed to go on with.
  std::uint64_t read_report(const ApartResult& result, std::uint64_t seed) {
    std::istringstream lines(result.said);
    bool at_work = false;
    for (std::string word; lines >> word;) {
      if (word == "start") {
        lines >> seed;
        at_work = true;
        continue;
      }
      if (word != "right" && word != "wrong") break;
      std::uint64_t unstable = 0, refused = 0, runs = 0, refusals = 0;
      lines >> unstable >> refused >> runs >> refusals;
      ++counts_.graphs;
      counts_.unstable += unstable;
      counts_.refused += refused;
      counts_.static_runs += runs;
      counts_.static_refusals += refusals;
      if (word == "wrong") report(seed);
      at_work = false;
      ++seed;
    }
    if (!at_work) {
      if (!result.death.empty())
        throw std::runtime_error("a batch ended between two graphs: " + result.death + " " +
                                 result.said);
      return seed;
    }
    ++counts_.graphs;
    report(seed);
    return seed + 1;
  }

  void report(std::uint64_t seed) {
    ++counts_.failed;
    RandomGraph graph = random_graph(seed, whole_language);
    std::string found = failure(graph);
    if (found.empty()) {
      fmt::print("seed {}: failed in its batch, not alone\n", seed);
      return;
    }
    const std::string stage = found.substr(0, found.find('\n'));
    graph = reduce(std::move(graph), [&](const RandomGraph& smaller) {
      const std::string why = failure(smaller);
      if (why.substr(0, why.find('\n')) != stage) return false;
      found = why;
      return true;
    });
    std::replace(found.begin(), found.end(), '\n', ' ');
    const auto file = folder_ / fmt::format("fuzz_{}.test", seed);
    std::ofstream(file) << case_text(graph, found);
    fmt::print("seed {}: {}; reduced to {}\n", seed, found, file.string());
    std::fflush(stdout);
  }

  static constexpr RandomGraphOptions whole_language{.whole_language = true};
  std::filesystem::path folder_;
  AgreementOptions options_;
  Counts counts_;
};

// Graphs of extremes.h, in processes of their own as above.
class ExtremeFuzzer {
 public:
  explicit ExtremeFuzzer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void run(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t seed = first; seed < first + count;) {
      const std::uint64_t end = std::min(first + count, seed + batch);
      const ApartResult result =
          run_apart([&](const auto& say) { work(seed, end, say); }, seconds_a_graph);
      std::istringstream lines(result.said);
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("start ")) {
          seed = std::stoull(line.substr(6));
        } else if (line.starts_with("counts ")) {
          std::istringstream numbers(line.substr(7));
          std::uint64_t cases = 0, right = 0, refused = 0, large = 0, uncounted = 0, graphs = 0;
          numbers >> cases >> right >> refused >> large >> uncounted >> graphs;
          counts_.cases += cases;
          counts_.right += right;
          counts_.refused += refused;
          counts_.large += large;
          counts_.uncounted += uncounted;
          counts_.graphs_refused += graphs;
          ++seed;
        } else {
          report(seed, line);
        }
      }
      if (result.death.empty()) continue;
      report(seed, result.death);
      ++seed;
    }
  }

  const ExtremeCounts& counts() const { return counts_; }
  std::uint64_t failed() const { return failed_; }

 private:
  static void work(std::uint64_t seed, std::uint64_t end,
                   const std::function<void(const std::string&)>& say) {
    limit_memory();
    const CompileTarget target = guarded_target();
    for (; seed < end; ++seed) {
      say(fmt::format("start {}\n", seed));
      ExtremeCounts counts;
      std::string found = extreme_disagreement(extreme_graph(seed), seed, target, counts);
      std::ranges::replace(found, '\n', ' ');
      if (!found.empty()) say(found + "\n");
      say(fmt::format("counts {} {} {} {} {} {}\n", counts.cases, counts.right, counts.refused,
                      counts.large, counts.uncounted, counts.graphs_refused));
    }
  }

  // The evaluator would otherwise take what the machine has, and more. A sanitizer needs its
  // shadow.
  static void limit_memory() {
#if !defined(__has_feature) || \
    !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
    const rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
    setrlimit(RLIMIT_AS, &limit);
#endif
  }

  void report(std::uint64_t seed, const std::string& what) {
    ++failed_;
    const auto file = folder_ / fmt::format("extremes_{}.test", seed);
    std::ofstream(file) << case_text(extreme_graph(seed), what);
    fmt::print("seed {}: {}; {}\n", seed, what, file.string());
    std::fflush(stdout);
  }

  std::filesystem::path folder_;
  ExtremeCounts counts_;
  std::uint64_t failed_ = 0;
};

int run_extremes(std::uint64_t first, std::uint64_t count, const std::filesystem::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  ExtremeFuzzer fuzzer(folder);
  fuzzer.run(first, count);
  const ExtremeCounts& counts = fuzzer.counts();
  fmt::print(
      "{{\"graphs\": {}, \"cases\": {}, \"failed\": {}, \"right\": {}, \"refused_by_both\": {}, "
      "\"too_large\": {}, \"uncounted\": {}, \"graphs_refused\": {}, \"seconds\": {:.1f}}}\n",
      count, counts.cases, fuzzer.failed(), counts.right, counts.refused, counts.large,
      counts.uncounted, counts.graphs_refused,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return fuzzer.failed() > 0 ? 1 : 0;
}

int run_file(const std::filesystem::path& file) {
  const Fuzzer fuzzer(".");
  bool failed = false;
  for (const GraphCase& one : read_cases(file)) {
    const std::string why = fuzzer.failure(one.graph);
    fmt::print("{}: {}\n", one.title, why.empty() ? "right" : why);
    failed = failed || !why.empty();
  }
  return failed ? 1 : 0;
}

int run(int count, char** arguments) {
  if (count == 3 && std::strcmp(arguments[1], "--case") == 0) return run_file(arguments[2]);
  if ((count == 4 || count == 5) && std::strcmp(arguments[1], "--extremes") == 0)
    return run_extremes(std::strtoull(arguments[2], nullptr, 10),
                        std::strtoull(arguments[3], nullptr, 10), count > 4 ? arguments[4] : ".");
  if (count == 3 && std::strcmp(arguments[1], "--print") == 0) {
    fmt::print("{}", case_text(random_graph(std::strtoull(arguments[2], nullptr, 10),
                                            {.whole_language = true}),
                               arguments[2]));
    return 0;
  }
#ifdef ANYDIM_ONNX
  if (count == 5 && std::strcmp(arguments[1], "--onnx") == 0) {
    const std::uint64_t first = std::strtoull(arguments[2], nullptr, 10),
                        graphs = std::strtoull(arguments[3], nullptr, 10);
    for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
      const std::string name = fmt::format("seed_{}", seed);
      const std::string reason = write_onnx_test(random_graph(seed, {.whole_language = true}),
                                                 std::filesystem::path(arguments[4]) / name);
      if (!reason.empty()) fmt::print("{}: no export: {}\n", name, reason);
    }
    return 0;
  }
#endif
  if (count < 3 || count > 4) {
    fmt::print(stderr,
               "usage: fuzz_graphs SEED COUNT [FOLDER] | --case FILE | --print SEED | --extremes "
               "SEED COUNT [FOLDER] | --onnx SEED COUNT FOLDER\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  Fuzzer fuzzer(count > 3 ? arguments[3] : ".");
  fuzzer.run(std::strtoull(arguments[1], nullptr, 10), std::strtoull(arguments[2], nullptr, 10));
  const Counts& counts = fuzzer.counts();
  fmt::print(
      "{{\"graphs\": {}, \"failed\": {}, \"unstable\": {}, \"refused\": {}, \"static_calls\": {}, "
      "\"static_refusals\": {}, \"seconds\": {:.1f}}}\n",
      counts.graphs, counts.failed, counts.unstable, counts.refused, counts.static_runs,
      counts.static_refusals,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return counts.failed > 0 ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz_graphs: {}\n", error.what());
    return 1;
  }
}
