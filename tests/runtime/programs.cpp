#include "tests/runtime/programs.h"

#include <algorithm>

namespace anydim::test {

namespace {

using ir::Code;
using ir::Dim;
using ir::Program;
using Place = Code::Buffer::Place;

constexpr std::int64_t block = 16;

Program::Kernel kernel(const std::string& name, std::size_t buffers,
                       std::vector<ir::DispatchTable::Entry> entries) {
  Program::Kernel made;
  made.region.name = name;
  made.region.identity = "identity of " + name;
  made.region.body.symbols.declare("s0");
  made.region.body.body.results.resize(
      buffers);  // as many as launches give it; nothing looks at their types
  made.region.keys = {Dim::symbol("s0")};
  made.table.entries = std::move(entries);
  return made;
}

ir::DispatchTable::Entry general() {
  return {{{{0, ir::default_symbol_maximum, 1}}}, {"plain", {}}, 1e-6};
}

Program::Stage stage(std::vector<std::string> leaves, std::vector<Code::Slot> slots,
                     Code::Slot first, std::vector<Dim> expressions) {
  Program::Stage made;
  for (std::string& leaf : leaves) made.shapes.leaves.push_back({.symbol = std::move(leaf)});
  made.shapes.expressions = std::move(expressions);
  made.leaves = std::move(slots);
  made.first = first;
  return made;
}

void scale(const ir::KernelCall* call, std::int64_t begin, std::int64_t end, void* scratch) {
  const auto* x = static_cast<const float*>(call->buffers[0]);
  const float weight = *static_cast<const float*>(call->buffers[1]);
  auto* result = static_cast<float*>(call->buffers[2]);
  auto* rows = static_cast<float*>(scratch);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t first = task * block, count = std::min(block, call->extents[0] - first);
    std::copy_n(x + first, count, rows);
    for (std::int64_t i = 0; i < count; ++i) result[first + i] = rows[i] * weight;
  }
}

void copy(const ir::KernelCall* call, std::int64_t begin, std::int64_t end, void*) {
  const auto* x = static_cast<const float*>(call->buffers[0]);
  auto* result = static_cast<float*>(call->buffers[1]);
  const std::int64_t last = std::min(end * block, call->extents[0]);
  std::copy(x + begin * block, x + last, result + begin * block);
}

void fill(const ir::KernelCall* call, std::int64_t begin, std::int64_t end, void*) {
  std::fill(static_cast<float*>(call->buffers[0]) + begin,
            static_cast<float*>(call->buffers[0]) + end, 7.0F);
}

void count(const ir::KernelCall* call, std::int64_t, std::int64_t, void*) {
  const auto* x = static_cast<const float*>(call->buffers[0]);
  *static_cast<std::int64_t*>(call->buffers[1]) =
      call->extents[0] < 2 ? 0 : static_cast<std::int64_t>(x[0] + x[1]);
}

void gather(const ir::KernelCall* call, std::int64_t begin, std::int64_t end, void*) {
  const auto* index = static_cast<const std::int64_t*>(call->buffers[0]);
  const auto* table = static_cast<const float*>(call->buffers[1]);
  for (std::int64_t i = begin; i < end; ++i) {
    std::int64_t at = index[i];
    if (at < 0 || at >= 10) {
      std::int32_t free = -1;
      if (__atomic_compare_exchange_n(&call->error->check, &free, 0, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
        call->error->value = at;
      at = 0;
    }
    static_cast<float*>(call->buffers[2])[i] = table[at];
  }
}

}  // namespace

Program scale_program() {
  const Dim n = Dim::symbol("n");
  Program program;
  ir::SymbolInfo rows;
  rows.high = 4096;
  rows.reason = "the table of '/positions' has 4096 rows";
  program.entry().symbols.declare("n", rows);
  program.entry().inputs = {{"x", ir::DType::F32, {n}, 0}};
  program.entry().outputs = {{"out", ir::DType::F32, {0}, 3}};
  program.entry().leaf_symbols = {"n"};
  // Slots: 0 n; 1 bytes of t and out; 2 offset of t; 3 bytes of the arena.
  program.entry().slots = 4;
  program.entry().buffers = {{Place::Input, 0, 0, -1, -1, "x"},
                             {Place::Constant, 0, 0, -1, -1, "w"},
                             {Place::Arena, 0, 0, 2, 1, "t"},
                             {Place::Output, 0, 0, -1, 1, "out"}};
  program.constants = {
      {ir::Tensor::of<float>(ir::DType::F32, {}, {3}), "w", ir::PackedLayout{"doubled", {}}, 0, 1}};
  program.stages = {stage({"n"}, {0}, 1, {4 * n, Dim(64), 4 * n + 64})};
  program.stages[0].arena_bytes = 3;
  program.kernels = {kernel("scale", 3, {{{{{0, 16, 1}}}, {"small", {}}, 1e-7}, general()}),
                     kernel("copy", 2, {general()})};
  program.entry().instructions = {Code::RunStage{0},
                                  Code::Launch{0, {0, 1, 2}, {0}, {0}, "mul 'Mul_1'"},
                                  Code::Launch{1, {2, 3}, {0}, {0}, "identity 'Copy_2'"}};
  program.arena_ceiling = 4 * n + 64;
  return program;
}

std::shared_ptr<FakeBackend> scale_backend() {
  auto backend = std::make_shared<FakeBackend>();
  const Dim blocks = ir::ceil_div(Dim::symbol("s0"), block);
  backend->add("scale", {scale, blocks, 4 * block});
  backend->add("copy", {copy, blocks, 0});
  return backend;
}

Program fetch_program() {
  Program program;
  program.entry().inputs = {{"counts", ir::DType::I64, {2}, 0}};
  program.entry().outputs = {{"y", ir::DType::F32, {2}, 1}};
  program.entry().leaf_symbols = {"", ""};
  // Slots: 0, 1 the two counts; 2 their sum; 3 bytes of y.
  program.entry().slots = 4;
  program.entry().buffers = {{Place::Input, 0, 0, -1, -1, "counts"},
                             {Place::Output, 0, 0, -1, 3, "y"}};
  const Dim total = Dim::symbol("a") + Dim::symbol("b");
  program.stages = {stage({}, {}, 0, {}), stage({"a", "b"}, {0, 1}, 2, {total, 4 * total})};
  program.stages[1].checks = {
      {ir::Relation::LessEqual, 2, 3, "reshape 'Reshape_5' (%y): dimension 0"}};
  program.kernels = {kernel("fill", 1, {general()})};
  program.entry().instructions = {Code::RunStage{0}, Code::Fetch{0, ir::DType::I64, 0, 0},
                                  Code::Fetch{0, ir::DType::I64, 1, 1}, Code::RunStage{1},
                                  Code::Launch{0, {1}, {2}, {2}, "constant_of_shape 'Fill_6'"}};
  return program;
}

std::shared_ptr<FakeBackend> fetch_backend() {
  auto backend = std::make_shared<FakeBackend>();
  backend->add("fill", {fill, Dim::symbol("s0"), 0});
  return backend;
}

Program device_fetch_program() {
  Program program = scale_program();
  // The sum of the first two elements, computed on the device, says how many sevens follow.
  program.entry().outputs.push_back({"y", ir::DType::F32, {5}, 5});
  program.entry().leaf_symbols.push_back("");
  // Slots: 0 n; 1 the count; 2 bytes of t and out; 3 offset of t; 4 bytes of the arena; 5 rows of
  // y; 6 bytes of y; 7 offset and 8 bytes of "count".
  program.entry().slots = 9;
  program.entry().outputs[0].dims = {0};
  program.entry().buffers[2] = {Place::Arena, 0, 0, 3, 2, "t"};
  program.entry().buffers[3] = {Place::Output, 0, 0, -1, 2, "out"};
  program.entry().buffers.push_back({Place::Arena, 0, 0, 7, 8, "count"});
  program.entry().buffers.push_back({Place::Output, 1, 1, -1, 6, "y"});
  const Dim n = Dim::symbol("n"), count = Dim::symbol("count");
  program.stages = {stage({"n"}, {0}, 2, {4 * n, Dim(64), 4 * n + 128}),
                    stage({"count"}, {1}, 5, {count, 4 * count})};
  program.stages[0].shapes.expressions = {4 * n, Dim(64), 4 * n + 128};
  program.stages[0].arena_bytes = 4;
  program.stages.push_back(stage({}, {}, 7, {Dim(0), Dim(8)}));
  program.kernels.push_back(kernel("count", 2, {general()}));
  program.kernels.push_back(kernel("fill", 1, {general()}));
  program.entry().instructions.insert(program.entry().instructions.begin() + 1, Code::RunStage{2});
  program.entry().instructions.push_back(Code::Launch{2, {0, 4}, {0}, {0}, "sum 'Sum_3'"});
  program.entry().instructions.push_back(Code::Fetch{4, ir::DType::I64, 0, 1});
  program.entry().instructions.push_back(Code::RunStage{1});
  program.entry().instructions.push_back(
      Code::Launch{3, {5}, {5}, {5}, "constant_of_shape 'Fill_4'"});
  return program;
}

std::shared_ptr<FakeBackend> device_fetch_backend() {
  auto backend = scale_backend();
  backend->add("count", {count, Dim(1), 0});
  backend->add("fill", {fill, Dim::symbol("s0"), 0});
  return backend;
}

Program gather_program() {
  const Dim n = Dim::symbol("n");
  Program program;
  program.entry().symbols.declare("n");
  program.entry().inputs = {{"index", ir::DType::I64, {n}, 0}};
  program.entry().outputs = {{"out", ir::DType::F32, {0}, 2}};
  program.entry().leaf_symbols = {"n"};
  program.entry().slots = 2;
  program.entry().buffers = {{Place::Input, 0, 0, -1, -1, "index"},
                             {Place::Constant, 0, 0, -1, -1, "table"},
                             {Place::Output, 0, 0, -1, 1, "out"}};
  program.constants = {{ramp(10), "table", std::nullopt, -1, -1}};
  program.stages = {stage({"n"}, {0}, 1, {4 * n})};
  program.kernels = {kernel("gather", 3, {general()})};
  program.kernels[0].checks = {
      {ir::KernelCheck::Kind::Index, "gather index", "/embeddings/Gather", Dim(10)}};
  program.entry().instructions = {
      Code::RunStage{0}, Code::Launch{0, {0, 1, 2}, {0}, {0}, "gather '/embeddings/Gather'"}};
  return program;
}

std::shared_ptr<FakeBackend> gather_backend() {
  auto backend = std::make_shared<FakeBackend>();
  backend->add("gather", {gather, Dim::symbol("s0"), 0});
  return backend;
}

ir::Tensor ramp(std::int64_t elements) {
  ir::Tensor tensor(ir::DType::F32, {elements});
  for (std::int64_t i = 0; i < elements; ++i)
    tensor.mutable_as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  return tensor;
}

}  // namespace anydim::test
