// usage: wrapper MODEL FOLDER: every class of anydim.hpp, on tiny_bert; says what is not as it
// should be, and is 1 then. Files go into FOLDER.
#include <anydim/anydim.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace {

int faults = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  ++faults;
}

template <typename Body>
anydim_kind kind_thrown(Body body) {
  try {
    body();
  } catch (const anydim::Error& error) {
    return error.kind();
  }
  return ANYDIM_OK;
}

const std::vector<std::int64_t> ids{2, 7, 11, 5, 3, 2, 9, 3, 0, 0},
    mask{1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
std::vector<anydim::Input> padded_inputs() {
  return {{"input_ids", {2, 5}, ids}, {"attention_mask", {2, 5}, mask}};
}

void ask(const anydim::Model& model) {
  const auto inputs = model.inputs(), outputs = model.outputs();
  expect(inputs.size() == 2 && inputs[0].name == "input_ids" && inputs[0].dtype == ANYDIM_I64,
         "inputs are told");
  expect(inputs[0].dims == std::vector<std::string>{"batch", "seq"} && inputs[0].extents[0] == -1,
         "dims are texts, extents of symbols -1");
  expect(outputs.size() == 1 && outputs[0].extents == std::vector<std::int64_t>{-1, -1, 32},
         "results are told");
  expect(model.symbols().size() == 2 && model.symbols()[0].name == "batch", "symbols are told");
  expect(model.padded_because().empty() && model.hidden_rows_kept_because().empty(),
         "the model packs and zeroes rows");
  expect(model.memory_ceiling({{"input_ids", {2, 5}}, {"attention_mask", {2, 5}}}).arena_bytes > 0,
         "calls have a ceiling");
  expect(model.ragged_inputs().at(0).rows && model.ragged_outputs().at(0).dims.size() == 2,
         "ragged inputs have rows");
}

void call(const anydim::Model& model, const std::string& folder) {
  anydim::Context context(model);
  anydim::Trace trace(model);
  context.set_trace(&trace);
  const anydim::Results owned = context.run(padded_inputs());
  const float* expected = owned["hidden"].data<float>();
  expect(context.packed_rows() == 8, "8 rows take part");
  expect(kind_thrown([&] { owned["other"]; }) == ANYDIM_BAD_ARGUMENT, "there is no such result");
  expect(kind_thrown([&] { owned.at(0).data<double>(); }) == ANYDIM_BAD_ARGUMENT,
         "the result is no f64");

  std::vector<float> small(10), hidden(400);
  std::vector<anydim::Output> outputs{{"hidden", 3, small}};
  expect(kind_thrown([&] { context.run(padded_inputs(), outputs); }) == ANYDIM_BAD_INPUTS,
         "10 elements are too few");
  expect(outputs[0].size() == 1280 && outputs[0].dims() == std::vector<std::int64_t>{2, 5, 32},
         "what is needed is told");
  outputs = {{"hidden", 3, hidden}};
  context.run(padded_inputs(), outputs);
  for (std::size_t e = 0; e < 320; ++e) expect(hidden[e] == expected[e], "both ways give the same");

  const std::vector<std::int64_t> tokens{2, 7, 11, 5, 3, 2, 9, 3}, offsets{0, 5, 8};
  const anydim::Results ragged = context.run_ragged({{"input_ids", {8}, tokens}}, offsets);
  std::vector<anydim::Output> rows{{"hidden", 2, hidden}};
  context.run_ragged({{"input_ids", {8}, tokens}}, offsets, rows);
  expect(rows[0].dims() == std::vector<std::int64_t>{8, 32}, "ragged results have a row a token");
  for (std::size_t e = 0; e < 256; ++e) {
    expect(ragged.at(0).data<float>()[e] == hidden[e], "both ways of a ragged call give the same");
    expect(std::fabs(hidden[e] - expected[e]) < 1e-4F, "ragged rows are the padded ones");
  }

  expect(owned.device(0) == -1, "results of a model on the CPU lie on the host");
  std::vector<anydim::Input> inputs = padded_inputs();
  expect(kind_thrown([&] { context.run(inputs, anydim::Stream()); }) == ANYDIM_BAD_INPUTS,
         "the CPU has no streams");
  inputs[0].on_device();
  outputs[0].on_device();
  expect(kind_thrown([&] { context.run(inputs, outputs, anydim::Stream(), &offsets); }) ==
             ANYDIM_BAD_INPUTS,
         "the CPU has no device memory");
  context.synchronize();

  anydim::Cancellation cancellation;
  context.set_cancellation(&cancellation);
  cancellation.cancel();
  expect(kind_thrown([&] { context.run(padded_inputs()); }) == ANYDIM_CANCELLED,
         "the call was cancelled");
  cancellation.reset();
  context.run(padded_inputs());
  context.set_cancellation(nullptr);
  const anydim_statistics statistics = model.statistics();
  expect(statistics.calls == 6 && statistics.packed == 4,
         "calls are counted, also the one without room");
  expect(statistics.ragged == 2 && statistics.failed == 2, "so are ragged and cancelled ones");
  trace.write(folder + "/trace.json");
  expect(std::ifstream(folder + "/trace.json").good(), "the trace is there");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  std::string warned;
  anydim::Options options{{"threads", "1"}, {"masked_rows", "zero"}, {"database", "none"}};
  options.set("background", "off")
      .set_warning(
          [](void* user, const char* message) { *static_cast<std::string*>(user) += message; },
          &warned);
  expect(kind_thrown([&] { options.set("treads", "1"); }) == ANYDIM_BAD_ARGUMENT,
         "there is no such option");
  {
    std::ifstream stream(argv[1], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    anydim::Model model(argv[1], options),
        moved = anydim::Model::from_memory(bytes.data(), bytes.size(), options);
    ask(model);
    call(model, argv[2]);
    model = std::move(moved);
    model.complete();
    ask(model);
    anydim::Cancellation cancellation;
    cancellation.cancel();
    expect(kind_thrown([&] { anydim::Model(argv[1], options, cancellation); }) == ANYDIM_CANCELLED,
           "the compilation was cancelled");
    expect(kind_thrown([&] { anydim::Model("no/such/model.onnx"); }) == ANYDIM_MALFORMED,
           "there is no such model");
  }
  expect(warned.empty(), "nothing was to be warned of");
  expect(anydim::api().handles_alive() == 1, "all but the options were released");
  return faults == 0 ? 0 : 1;
} catch (const anydim::Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
