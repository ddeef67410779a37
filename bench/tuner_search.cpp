// How much of the optimum a search finds at a share of the space, on a recorded full sweep (`anydim
// tune --exhaustive --sweep FILE`): candidates ranked by the cost model alone against the model
// refitted to what was measured, and against drawing at random. usage: tuner_search SWEEP.json
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "tuner/json.h"
#include "tuner/search.h"

namespace {

using anydim::tuner::Attempt;
using anydim::tuner::Search;
using anydim::tuner::SearchRegion;
using anydim::tuner::SearchRules;

struct Sweep {
  std::vector<SearchRegion> regions;
  std::vector<std::vector<std::vector<double>>> seconds;  // [region][candidate][point]
  std::size_t space = 0;
};

Sweep read_sweep(const char* file) {
  std::ifstream stream(file);
  const nlohmann::json whole =
      anydim::tuner::parse_json(std::string(std::istreambuf_iterator<char>(stream), {}));
  Sweep sweep;
  for (const nlohmann::json& one : whole.at("regions")) {
    SearchRegion region;
    region.points = one.at("points").get<std::vector<std::vector<std::int64_t>>>();
    region.weights = one.at("weights").get<std::vector<double>>();
    region.incumbents = one.at("incumbents").get<std::vector<std::size_t>>();
    auto& seconds = sweep.seconds.emplace_back();
    for (const nlohmann::json& candidate : one.at("candidates")) {
      region.candidates.push_back(
          anydim::ir::parse_schedule(candidate.at("schedule").get<std::string>()));
      region.estimates.push_back(candidate.at("estimate_us").get<std::vector<double>>());
      seconds.push_back(candidate.at("us").get<std::vector<double>>());
    }
    sweep.space += region.candidates.size();
    sweep.regions.push_back(std::move(region));
  }
  return sweep;
}

double best_of(const Sweep& sweep) {
  double total = 0;
  for (std::size_t r = 0; r < sweep.regions.size(); ++r) {
    for (std::size_t p = 0; p < sweep.regions[r].points.size(); ++p) {
      double least = INFINITY;
      for (const auto& candidate : sweep.seconds[r]) least = std::min(least, candidate[p]);
      total += sweep.regions[r].weights[p] * least;
    }
  }
  return total;
}

// The best known call after each trial, over the best there is.
std::vector<double> course(const Sweep& sweep, const SearchRules& rules, std::mt19937* random) {
  Search search(sweep.regions, rules);
  std::vector<double> course;
  const double best = best_of(sweep);
  std::vector<Attempt> shuffled;
  if (random != nullptr) {
    for (std::size_t r = 0; r < sweep.regions.size(); ++r)
      for (std::size_t c = 0; c < sweep.regions[r].candidates.size(); ++c)
        shuffled.push_back({r, c});
    std::ranges::shuffle(shuffled, *random);
    // The incumbents are what any search starts from.
    std::vector<Attempt> incumbents;
    std::erase_if(shuffled, [&](const Attempt& attempt) {
      const bool incumbent =
          std::ranges::find(sweep.regions[attempt.region].incumbents, attempt.candidate) !=
          sweep.regions[attempt.region].incumbents.end();
      if (incumbent) incumbents.push_back(attempt);
      return incumbent;
    });
    shuffled.insert(shuffled.begin(), incumbents.begin(), incumbents.end());
  }
  for (std::size_t trial = 0; trial < sweep.space; ++trial) {
    const auto next = random == nullptr ? search.next() : std::optional<Attempt>(shuffled[trial]);
    if (!next) break;
    std::vector<double> ratios, incumbents;
    for (std::size_t p = 0; p < sweep.regions[next->region].points.size(); ++p) {
      incumbents.push_back(
          sweep.seconds[next->region][sweep.regions[next->region].incumbents[p]][p]);
      ratios.push_back(sweep.seconds[next->region][next->candidate][p] / incumbents.back());
    }
    search.record(*next, ratios, incumbents);
    // Takes what was measured, and incumbents where nothing was, as if the run ended here.
    course.push_back(search.best_seconds() / best);
  }
  return course;
}

double after(const std::vector<double>& course, std::size_t trials) {
  return course[std::min(trials, course.size()) - 1];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tuner_search SWEEP.json\n");
    return 2;
  }
  const Sweep sweep = read_sweep(argv[1]);
  std::size_t incumbents = 0;
  for (const SearchRegion& region : sweep.regions) {
    std::vector<std::size_t> distinct = region.incumbents;
    std::ranges::sort(distinct);
    incumbents +=
        static_cast<std::size_t>(std::ranges::unique(distinct).begin() - distinct.begin());
  }
  SearchRules rules{.threshold = 0};
  const std::vector<double> refit = course(sweep, rules, nullptr);
  rules.refit = false;
  const std::vector<double> ranked = course(sweep, rules, nullptr);
  constexpr int draws = 20;
  std::vector<std::vector<double>> random;
  for (unsigned seed = 0; seed < draws; ++seed) {
    std::mt19937 engine(seed);
    random.push_back(course(sweep, rules, &engine));
  }
  fmt::print("{} regions, {} candidates, {} of them incumbents (always measured first)\n",
             sweep.regions.size(), sweep.space, incumbents);
  fmt::print("time of a call over the best there is, and share of the possible saving found:\n");
  fmt::print(
      "| share of the space | trials | random | cost model alone | refitted (ridge) |\n| ---: | "
      "---: | ---: | ---: | ---: |\n");
  const double start = after(refit, incumbents);
  for (const double share : {0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0}) {
    const auto more = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sweep.space)));
    const std::size_t trials =
        std::min(std::max(incumbents, share == 0 ? std::size_t{0} : more), sweep.space);
    double mean = 0;
    for (const std::vector<double>& one : random) mean += after(one, trials) / draws;
    const auto cell = [&](double ratio) {
      return fmt::format("{:.3f} ({:.0f} %)", ratio,
                         start > 1 ? 100 * (start - ratio) / (start - 1) : 100);
    };
    fmt::print("| {:.0f} % | {} | {} | {} | {} |\n", 100 * share, trials, cell(mean),
               cell(after(ranked, trials)), cell(after(refit, trials)));
  }
}
