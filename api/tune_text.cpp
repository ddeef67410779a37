#include "api/tune_text.h"

#include "api/append.h"

namespace anydim {

std::string tune_text(const tuner::TuneResult& result, const std::filesystem::path& file) {
  std::string text;
  if (result.nothing_to_do) {
    append(
        text,
        "{}: nothing to do: the same model, sizes and limits were tuned at {}; a call is expected "
        "to take {:.3f} ms\n",
        file.string(), result.run.finished, 1e3 * result.run.expected_seconds);
    return text;
  }
  append(text, "{}: {} candidates tried, {} known from before, of {}\n", file.string(),
         result.trials, result.reused, result.space);
  for (const auto& [outcome, count] : result.failures)
    append(text, "  {}: {}\n", tuner::name_of(outcome), count);
  if (result.interrupted) {
    append(text, "interrupted: what was measured is kept, and the next run goes on from there\n");
    return text;
  }
  append(text,
         "{} kernels; a call is expected to take {:.3f} ms, {:.3f} ms by the cost model alone, at "
         "least {:.3f} ms with so many kernels\n",
         result.run.kernels, 1e3 * result.run.expected_seconds, 1e3 * result.run.default_seconds,
         1e3 * result.run.lower_bound_seconds);
  if (!result.regret) return text;
  append(text,
         "regret on sizes that were not measured, against the best of every size ({:.3f} ms){}:\n",
         1e3 * result.regret->best_seconds,
         result.regret_share < 1
             ? fmt::format(", over {:.0f} % of a call; no time was left for the rest",
                           100 * result.regret_share)
             : "");
  const auto with_interval = [](double share, const tuner::Interval95& interval) {
    return fmt::format("{:.2f} [{:.2f}, {:.2f}] %", 100 * share, 100 * interval.low,
                       100 * interval.high);
  };
  constexpr const char* columns = "  {:<24} {:>8} {:>10} {:>24} {:>8} {:>24}\n";
  append(text, columns, "", "kernels", "call ms", "total", "mean", "p99");
  for (const tuner::StrategyRegret& one : result.regret->strategies) {
    append(text, columns, one.name, one.kernels, fmt::format("{:.3f}", 1e3 * one.expected_seconds),
           with_interval(one.regret.expected_total, one.regret.expected_total_interval),
           fmt::format("{:.2f} %", 100 * one.regret.mean),
           with_interval(one.regret.percentile_99, one.regret.percentile_99_interval));
  }
  const tuner::Regret& noise = result.regret->noise;
  append(text, columns, "noise (A against A)", "", "",
         fmt::format("{:.2f} %", 100 * noise.expected_total),
         fmt::format("{:.2f} %", 100 * noise.mean),
         fmt::format("{:.2f} %", 100 * noise.percentile_99));
  append(text, "  in brackets: 95 % intervals over {} rounds of timing\n", result.regret->rounds);
  return text;
}

}  // namespace anydim
