// anydim bench --op ... --device cuda.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tools/bench_op.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

constexpr int repetitions = 31;

struct MatmulRow {
  GpuMatmul shape;
  GpuMatmulTimes times;
};

std::vector<MatmulRow> time_matmuls(const OperatorBench& bench, const CompileOptions& options) {
  std::vector<MatmulRow> rows;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> groups;
  for (const std::string& text : bench.shapes) {
    const auto numbers =
        parse_shape(text, 3, "M,N,K with numbers from 1 to 1048576, e.g. 128,1536,384");
    groups[{numbers[1], numbers[2]}].push_back(rows.size());
    rows.push_back({{.m = numbers[0], .n = numbers[1], .k = numbers[2]}, {}});
  }
  const CompileTarget target = make_target(options);
  GpuBenchOptions gpu;
  gpu.library = bench.library == "cublas";
  gpu.library_path = bench.library_path;
  gpu.cache_extremes = gpu.library;
  gpu.repetitions = repetitions;
  for (const auto& [weight, positions] : groups) {
    std::vector<GpuMatmul> shapes;
    for (const std::size_t position : positions) shapes.push_back(rows[position].shape);
    const std::vector<GpuMatmulTimes> times = time_matmul(target, shapes, options, gpu);
    for (std::size_t i = 0; i < positions.size(); ++i) rows[positions[i]].times = times[i];
  }
  return rows;
}

// The time of a wrong result is none.
void require_right(double difference, const std::string& what) {
  constexpr double most = 0.02;  // relative to the largest result, of bf16
  if (!(difference <= most))
    throw Error(ErrorKind::Internal, "{} is wrong by {:.1e} of the largest result", what,
                difference);
}

// One side of the cache: ours, the library's, and how they compare.
nlohmann::ordered_json comparison_of(const GpuComparison& times) {
  return {{"us", 1e6 * times.ours.median},
          {"heuristic_us", 1e6 * times.heuristic.median},
          {"best_us", 1e6 * times.best.median},
          {"ratio", times.heuristic.median / times.ours.median},
          {"ratio_to_best", times.best.median / times.ours.median}};
}

void print_matmuls(const std::vector<MatmulRow>& rows, const OperatorBench& bench) {
  const bool compared = bench.library == "cublas";
  std::vector<double> ratios;
  nlohmann::ordered_json shapes = nlohmann::ordered_json::array();
  for (const auto& [shape, times] : rows) {
    require_right(times.largest_difference, fmt::format("the product of {} x {} x {} by {}",
                                                        shape.m, shape.n, shape.k, times.schedule));
    const double work = 2e-12 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                        static_cast<double>(shape.k);
    const double ours = times.ring.ours.median;
    nlohmann::ordered_json one = {{"m", shape.m},
                                  {"n", shape.n},
                                  {"k", shape.k},
                                  {"us", 1e6 * ours},
                                  {"tflops", work / ours},
                                  {"schedule", times.schedule},
                                  {"largest_difference", times.largest_difference}};
    std::string line = fmt::format("{:>5} x {:>5} x {:>5}  {:>9.2f} us {:>6.1f} TFLOP/s", shape.m,
                                   shape.n, shape.k, 1e6 * ours, work / ours);
    if (compared) {
      one.update(comparison_of(times.ring));
      one["algorithms"] = times.algorithms;
      one["warm"] = comparison_of(times.warm);
      one["cold"] = comparison_of(times.cold);
      ratios.push_back(one["ratio"]);
      line += fmt::format(
          "  cublas {:>9.2f} us  ratio {:.3f}, to the best of {} {:.3f}; warm {:.2f} us {:.3f}, "
          "cold {:.2f} us {:.3f}",
          1e6 * times.ring.heuristic.median, ratios.back(), times.algorithms,
          one["ratio_to_best"].get<double>(), 1e6 * times.warm.ours.median,
          one["warm"]["ratio"].get<double>(), 1e6 * times.cold.ours.median,
          one["cold"]["ratio"].get<double>());
    }
    shapes.push_back(one);
    if (!bench.json)
      put("{}  difference {:.1e}  {}\n", line, times.largest_difference, times.schedule);
  }
  print_ratios(bench, shapes, ratios, "the heuristic choice");
}

void run_attention(const OperatorBench& bench, const CompileOptions& options) {
  std::vector<GpuAttention> shapes;
  for (const std::string& text : bench.shapes) {
    const auto numbers = parse_shape(
        text, 4, "BATCH,HEADS,LENGTH,HEAD with numbers from 1 to 1048576, e.g. 32,12,128,64");
    shapes.push_back(
        {.batch = numbers[0], .heads = numbers[1], .length = numbers[2], .head = numbers[3]});
  }
  const std::vector<GpuAttentionTimes> all =
      time_attention(make_target(options), shapes, options, repetitions);
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const GpuAttention& shape = shapes[i];
    require_right(all[i].largest_difference,
                  fmt::format("attention over {} x {} x {} x {} by {}", shape.batch, shape.heads,
                              shape.length, shape.head, all[i].schedule));
    const double length = static_cast<double>(shape.length);
    const double work =
        4e-12 * static_cast<double>(shape.batch * shape.heads * shape.head) * length * length;
    const double bytes = 8e-9 * static_cast<double>(shape.batch * shape.heads * shape.head) *
                         length;  // Q, K, V and O in 16 bits
    const double seconds = all[i].ours.median;
    listed.push_back({{"batch", shape.batch},
                      {"heads", shape.heads},
                      {"length", shape.length},
                      {"head", shape.head},
                      {"us", 1e6 * seconds},
                      {"tflops", work / seconds},
                      {"gb_per_s", bytes / seconds},
                      {"schedule", all[i].schedule},
                      {"largest_difference", all[i].largest_difference}});
    if (!bench.json) {
      put("{:>4} x {:>3} heads x {:>5} x {:>3}  {:>9.2f} us {:>6.1f} TFLOP/s {:>7.1f} GB/s  "
          "difference {:.1e}  {}\n",
          shape.batch, shape.heads, shape.length, shape.head, 1e6 * seconds, work / seconds,
          bytes / seconds, all[i].largest_difference, all[i].schedule);
    }
  }
  if (bench.json) put_json(nlohmann::ordered_json{{"operator", bench.name}, {"shapes", listed}});
}

}  // namespace

void run_gpu_operator_bench(const OperatorBench& bench, const CompileOptions& options) {
  const bool attention = bench.name == "attention";
  if (bench.library != "none" && (attention || bench.library != "cublas")) {
    throw Error(ErrorKind::CommandLine, "on CUDA {} is compared with {}", bench.name,
                attention ? "--vs none" : "--vs cublas or none");
  }
  if (bench.shapes.empty()) {
    throw Error(
        ErrorKind::CommandLine,
        attention
            ? "bench --op attention needs shapes, BATCH,HEADS,LENGTH,HEAD each, e.g. 32,12,128,64"
            : "bench --op matmul needs shapes, M,N,K each, e.g. 128,1536,384");
  }
  if (attention) run_attention(bench, options);
  else print_matmuls(time_matmuls(bench, options), bench);
}

}  // namespace anydim::tools
