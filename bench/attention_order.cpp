// What the order of attention's blocks is worth over sequences laid end to end: blocks as the cost
// model times them, handed to a part's multiprocessors in turn.
//
//   attention_order TOKENS PART HEADS HEAD SCHEDULE BATCH...
//
// TOKENS: one JSON list a line, whose lengths count; PART as codegen_cuda/target.h names them;
// SCHEDULE of attention_mma or attention_wgmma; BATCH texts a call, in the file's order. Prints a
// line of JSON for each BATCH: means over the calls of the time until the last block ends, in
// microseconds, with the sequences begun as they lie and longest first (runtime/packing.h), and of
// the least time that any order could take.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>

#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/target.h"
#include "ir/error.h"
#include "runtime/packing.h"
#include "tuner/json.h"

namespace {

using namespace anydim;
using codegen_cuda::AttentionMmaSchedule;
using codegen_cuda::AttentionSizes;
using codegen_cuda::AttentionWgmmaSchedule;

// A schedule's blocks on a part.
struct Blocks {
  std::int64_t rows = 0, points = 1, resident = 1, multiprocessors = 0;
  std::function<double(const AttentionSizes&)> seconds;  // of a launch

  std::int64_t places() const { return multiprocessors * resident; }
  // What a full wave of blocks adds to a launch: each is one among as many as a multiprocessor
  // holds, with one that finds no rows, of which a launch has up to one a sequence.
  double time(double keys, double depth) const {
    const auto waves = [&](std::int64_t count) {
      const auto all = static_cast<double>(count * places() * points);
      return seconds({.points = all,
                      .rows = static_cast<double>(rows),
                      .keys = keys,
                      .depth = depth,
                      .width = depth,
                      .ragged = true});
    };
    return waves(2) - waves(1);
  }
};

Blocks blocks_of(const ir::Schedule& schedule, const codegen_cuda::CudaTarget& target,
                 std::int64_t head) {
  if (schedule.name == "attention_mma") {
    const auto fields = AttentionMmaSchedule::from(schedule);
    return {fields.block_rows(), fields.points,
            fields.resident_blocks(target, head, head, false, true), target.multiprocessors,
            [=](const AttentionSizes& sizes) {
              return attention_mma_seconds(target, fields, sizes, false);
            }};
  }
  if (schedule.name != "attention_wgmma")
    throw Error(ErrorKind::CommandLine,
                "a schedule of attention_mma or attention_wgmma, not " + schedule.name);
  const auto fields = AttentionWgmmaSchedule::from(schedule);
  return {fields.block_rows(), 1, fields.resident_blocks(target, head, head, false),
          target.multiprocessors, [=](const AttentionSizes& sizes) {
            return attention_wgmma_seconds(target, fields, sizes, false);
          }};
}

struct Makespans {
  double as_they_lie = 0, longest_first = 0, least = 0;
};

double last_end(const std::vector<double>& blocks, std::size_t places) {
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
  for (std::size_t i = 0; i < places; ++i) ends.push(0);
  double last = 0;
  for (const double block : blocks) {
    const double end = ends.top() + block;
    ends.pop();
    ends.push(end);
    last = std::max(last, end);
  }
  return last;
}

Makespans simulate(const Blocks& blocks, std::span<const std::int64_t> offsets, std::int64_t heads,
                   double depth) {
  const auto places = static_cast<std::size_t>(blocks.places());
  std::map<std::int64_t, double> times;  // by length
  std::vector<double> lying, listed;
  const auto add = [&](std::vector<double>& order, std::int64_t sequence) {
    const auto s = static_cast<std::size_t>(sequence);
    const std::int64_t length = offsets[s + 1] - offsets[s],
                       groups = (heads + blocks.points - 1) / blocks.points;
    const auto [time, fresh] = times.try_emplace(length, 0);
    if (fresh) time->second = blocks.time(static_cast<double>(length), depth);
    order.insert(order.end(),
                 static_cast<std::size_t>((length + blocks.rows - 1) / blocks.rows * groups),
                 time->second);
  };
  const std::vector<std::int64_t> list = runtime::work_list(offsets);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    add(lying, static_cast<std::int64_t>(s));
    add(listed, list[2 * s]);
  }
  double all = 0, longest = 0;
  for (const double block : lying) {
    all += block;
    longest = std::max(longest, block);
  }
  return {last_end(lying, places), last_end(listed, places),
          std::max(longest, all / static_cast<double>(places))};
}

std::vector<std::int64_t> lengths_of(const char* file) {
  std::ifstream in(file);
  if (!in) throw Error(ErrorKind::Malformed, std::string(file) + ": cannot be read");
  std::vector<std::int64_t> lengths;
  for (std::string line; std::getline(in, line);)
    lengths.push_back(static_cast<std::int64_t>(anydim::tuner::parse_json(line).size()));
  return lengths;
}

void run(char** arguments, int batches) {
  const std::vector<std::int64_t> lengths = lengths_of(arguments[1]);
  const auto target = codegen_cuda::target_named(arguments[2]);
  if (!target) throw Error(ErrorKind::CommandLine, "there is no part {}", arguments[2]);
  const std::int64_t heads = std::stoll(arguments[3]), head = std::stoll(arguments[4]);
  const Blocks blocks = blocks_of(ir::parse_schedule(arguments[5]), *target, head);
  for (int b = 0; b < batches; ++b) {
    const std::size_t batch = std::stoull(arguments[6 + b]);
    Makespans sum;
    double calls = 0;
    for (std::size_t first = 0; first + batch <= lengths.size(); first += batch, ++calls) {
      std::vector<std::int64_t> offsets{0};
      for (std::size_t i = first; i < first + batch; ++i)
        offsets.push_back(offsets.back() + lengths[i]);
      const Makespans one = simulate(blocks, offsets, heads, static_cast<double>(head));
      sum.as_they_lie += one.as_they_lie;
      sum.longest_first += one.longest_first;
      sum.least += one.least;
    }
    if (calls == 0)
      throw Error(ErrorKind::CommandLine, "{} has fewer than {} texts", arguments[1], batch);
    fmt::print(
        "{{\"batch\": {}, \"calls\": {}, \"as_they_lie_us\": {:.2f}, \"longest_first_us\": {:.2f}, "
        "\"least_us\": {:.2f}, \"gain\": {:.3f}}}\n",
        batch, calls, 1e6 * sum.as_they_lie / calls, 1e6 * sum.longest_first / calls,
        1e6 * sum.least / calls, sum.as_they_lie / sum.longest_first);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    fmt::print(stderr, "usage: attention_order TOKENS PART HEADS HEAD SCHEDULE BATCH...\n");
    return 2;
  }
  try {
    run(argv, argc - 6);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "attention_order: {}\n", error.what());
    return 1;
  }
}
