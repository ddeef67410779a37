// A model on the interpreter of PTX beside the CPU: what a GPU of a part would compute, where none
// is there.
//
//   ptx_model MODEL.onnx PART PRECISION BATCH LENGTH [whole]
//   ptx_model MODEL.onnx PART PRECISION FOLDER
//
// PART as codegen_cuda/target.h names them ("a100", "h200"), PRECISION f32, bf16 or f16. The mask
// hides half of every text; rows that it hides are not computed where that is proven to change
// nothing. With `whole` every row of the default table is compiled, so that each region runs the
// kernel of its bucket; without, its general kernel. Prints a line of JSON: the largest difference
// of any output from the CPU's in f32, kernels run, trials and seconds. Exit code 1: findings of
// the interpreter, or a difference of more than 1e-5 (f32), 2e-3 (f16) or 1e-2 (bf16) of the
// largest value. With a FOLDER, inputs are its NAME.npy, results go to FOLDER/out and
// nothing is compared.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "api/anydim.h"
#include "api/output_files.h"
#include "api/recorded_calls.h"
#include "ir/error.h"
#include "tests/support/fake_part.h"
#include "tests/support/random_tensors.h"

namespace {

using namespace anydim;
using Clock = std::chrono::steady_clock;

CompileOptions options_of(const char* precision) {
  CompileOptions options;
  options.masked_rows = MaskedRows::Zero;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 2;
  options.precision = parse_precision(precision);
  return options;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int run_case(const std::string& file, const char* part_name, const char* precision,
             const std::filesystem::path& folder) {
  tests::FakePart part(part_name);
  const auto model = Model::compile(part.target, load_model(file), options_of(precision));
  const std::vector<ir::Tensor> inputs = read_call(folder, model->inputs());
  ModelContext context(model);
  const auto begin = Clock::now();
  write_outputs(folder / "out", model->output_names(),
                part.reporting([&] { return context.run(inputs); }));
  fmt::print("{{\"packed\": {}, \"kernels_run\": {}, \"seconds\": {:.1f}}}\n",
             context.packed_rows().has_value(), part.fake->kernels_run(), seconds_since(begin));
  return 0;
}

double tolerance_of(ir::DType precision) {
  return precision == ir::DType::F32 ? 1e-5 : precision == ir::DType::F16 ? 2e-3 : 1e-2;
}

int run(const std::string& file, const char* part_name, const char* precision, std::int64_t batch,
        std::int64_t length, bool whole) {
  CompileOptions options = options_of("f32");
  tests::FakePart part(part_name);
  ModelContext reference(Model::compile(load_model(file), options));
  options.precision = parse_precision(precision);
  const auto model = Model::compile(part.target, load_model(file), options);
  if (whole) model->complete();
  const std::vector<ir::Tensor> inputs = tests::random_texts(model->inputs(), batch, length, 1);
  const std::vector<ir::Tensor> want = reference.run(inputs);
  ModelContext context(model);
  double largest = 0, magnitude = 0;
  const auto begin = Clock::now();
  for (int call = 0; call < 2; ++call) {  // on the stream, then as a graph
    std::vector<ir::Tensor> got;
    try {
      got = part.reporting([&] { return context.run(inputs); });
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 1;
    }
    for (std::size_t o = 0; o < want.size(); ++o) {
      for (std::int64_t i = 0; i < want[o].elements(); ++i) {
        const double difference = std::abs(got[o].real_at(i) - want[o].real_at(i));
        if (!std::isnan(largest) && !(difference <= largest)) largest = difference;  // NaN stays
        magnitude = std::max(magnitude, std::abs(want[o].real_at(i)));
      }
    }
  }
  fmt::print(
      "{{\"part\": \"{}\", \"precision\": \"{}\", \"batch\": {}, \"length\": {}, \"packed\": {}, "
      "\"largest_difference\": {:.3g}, \"largest_value\": {:.3g}, \"kernels_run\": {}, \"trials\": "
      "{}, \"graphs\": {}, \"seconds\": {:.1f}}}\n",
      part_name, precision, batch, length, model->packing().has_value(), largest, magnitude,
      part.fake->kernels_run(), part.fake->calls("stream_query"), part.fake->calls("graph_launch"),
      seconds_since(begin));
  return largest <= tolerance_of(options.precision) * magnitude ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const bool whole = count == 7 && std::string_view(arguments[6]) == "whole";
  if (count != 5 && count != 6 && !whole) {
    fmt::print(stderr,
               "usage: ptx_model MODEL.onnx PART PRECISION (BATCH LENGTH [whole] | FOLDER)\n");
    return 2;
  }
  try {
    if (count == 5) return run_case(arguments[1], arguments[2], arguments[3], arguments[4]);
    return run(arguments[1], arguments[2], arguments[3], std::atoll(arguments[4]),
               std::atoll(arguments[5]), whole);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
