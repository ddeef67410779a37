#include "codegen_cuda/matmul/library_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/work.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

using ir::MatmulForm;
using ir::ScalarProgram;

struct Refusal {
  std::string why;
};

class Reader {
 public:
  Reader(const ir::Region& region, const ir::LoopForm& form, const MatmulForm& matmul)
      : region_(region), form_(form), matmul_(matmul) {}

  LibraryForm read() {
    ir::LibraryProduct product;
    const auto n = matmul_.n.extent.constant(), k = matmul_.k.extent.constant();
    if (!n || !k || *n < 1 || *k < 1)
      throw Refusal{"the weight's size is not known when it is compiled"};
    product.n = *n;
    product.k = *k;
    for (const ir::Iteration& iteration : matmul_.batch) add_row(iteration);
    add_row(matmul_.m);

    const ScalarStep& left = element(matmul_.left, "the left operand");
    const ScalarStep& right = element(matmul_.right, "the right operand");
    product.dtype = left.dtype;
    if (product.dtype != DType::F32 && product.dtype != DType::F16 && product.dtype != DType::BF16)
      throw Refusal{fmt::format("it multiplies {} numbers", ir::name_of(product.dtype))};
    if (right.dtype != product.dtype) throw Refusal{"its operands are of different types"};
    if (matmul_.accumulate == DType::F64) throw Refusal{"its sums are kept in f64"};
    product.x = left.as<ir::step::Load>().buffer;
    product.w = right.as<ir::step::Load>().buffer;
    const Dim depth = matmul_.k.index(), column = matmul_.n.index();
    if (!lies_at(left, row_ * product.k + depth))
      throw Refusal{"the left operand's rows do not lie one after the other"};
    product.w_by_columns = lies_at(right, column * product.k + depth);
    if (!product.w_by_columns && !lies_at(right, depth * product.n + column))
      throw Refusal{"the right operand is no matrix that all rows share"};
    read_epilogue(product);
    return {product, rows_, {}};
  }

 private:
  void add_row(const ir::Iteration& iteration) {
    row_ = row_ * iteration.extent + iteration.index();
    rows_ = rows_ * iteration.extent;
  }

  static const ScalarStep& element(const ScalarProgram& program, const char* what) {
    // What remains without widening is a prefix of the program.
    const ScalarStep& last = program.steps[ir::without_widening(program).steps.size() - 1];
    if (!last.is<ir::step::Load>()) throw Refusal{fmt::format("{} is computed, not read", what)};
    return last;
  }

  bool lies_at(const ScalarStep& load, const Dim& offset) const {
    return ir::prove_equal(load_offset(region_, load, form_.symbols),
                           ir::simplify(offset, form_.symbols), form_.symbols) == ir::Proof::Yes;
  }

  const ScalarStep& step(std::int32_t position) const {
    return matmul_.epilogue.steps.at(static_cast<std::size_t>(position));
  }

  // The step behind conversions between the product's own type and f32.
  std::int32_t behind_casts(std::int32_t position, DType dtype) const {
    for (;;) {
      const ScalarStep& at = step(position);
      if (!at.applies(ir::Op::cast) || (at.dtype != dtype && at.dtype != DType::F32))
        return position;
      const DType from = step(at.operands[0]).dtype;
      if (from != dtype && from != DType::F32) return position;
      position = at.operands[0];
    }
  }

  void read_epilogue(ir::LibraryProduct& product) const {
    using Activation = ir::LibraryProduct::Activation;
    if (matmul_.stores.size() != 1) throw Refusal{"it has several results"};
    const ir::Store& store = matmul_.stores.front();
    const ir::TensorType& type = region_.body.tensor_type(
        region_.body.body.results.at(static_cast<std::size_t>(store.output)));
    if (type.dtype != product.dtype)
      throw Refusal{fmt::format("its result is of {}, its operands of {}", ir::name_of(type.dtype),
                                ir::name_of(product.dtype))};
    product.d = static_cast<std::int32_t>(region_.body.body.parameters.size()) + store.output;
    const Dim place = ir::simplify(row_ * product.n + matmul_.n.index(), form_.symbols);
    if (ir::prove_equal(ir::linear_offset(store.index, type.dims, form_.symbols), place,
                        form_.symbols) != ir::Proof::Yes)
      throw Refusal{"its result's rows do not lie one after the other"};

    std::int32_t position = behind_casts(store.step, product.dtype);
    if (step(position).applies(ir::Op::relu)) product.activation = Activation::Relu;
    if (step(position).applies(ir::Op::gelu_tanh)) product.activation = Activation::GeluTanh;
    if (product.activation != Activation::None)
      position = behind_casts(step(position).operands[0], product.dtype);
    if (step(position).applies(ir::Op::add)) {
      const std::vector<std::int32_t> operands = step(position).operands;
      for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        const ScalarStep& bias = step(behind_casts(operands[1 - side], product.dtype));
        if (!bias.is<ir::step::Load>() || bias.dtype != product.dtype ||
            !lies_at(bias, matmul_.n.index()))
          continue;
        product.bias = bias.as<ir::step::Load>().buffer;
        position = behind_casts(operands[side], product.dtype);
        break;
      }
    }
    const ScalarStep& first = step(position);
    if (first.is<ir::step::Apply>())
      throw Refusal{fmt::format(
          "its epilogue has {}; the library's has a bias, ReLU and the tanh form of GELU",
          ir::info(first.op()).text)};
    if (!first.is<ir::step::Accumulated>())
      throw Refusal{
          "its epilogue is more than the library's: a bias, ReLU and the tanh form of GELU"};
  }

  const ir::Region& region_;
  const ir::LoopForm& form_;
  const MatmulForm& matmul_;
  Dim row_, rows_{1};
};

// Never a candidate of its own accord: it is asked for by Backend::library_schedule.
class LibraryKind : public KernelKind {
 public:
  std::string_view name() const override { return library_schedule_name; }
  bool accepts(const PlanInputs& inputs) const override {
    return library_form(inputs).product.has_value();
  }
  std::vector<ir::Schedule> candidates(const PlanInputs&, const ir::Bucket&) const override {
    return {};
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule&,
                  std::span<const std::int64_t> keys) const override {
    const auto& matmul = std::get<MatmulForm>(inputs.form.kind);
    std::vector<ir::Iteration> rows = matmul.batch;
    rows.push_back(matmul.m);
    const ir::LibraryProduct product = *library_form(inputs).product;
    const double m = points_at(inputs, rows, keys), n = static_cast<double>(product.n),
                 k = static_cast<double>(product.k);
    const double bytes = static_cast<double>(ir::size_of(product.dtype)) * (m * k + k * n + m * n);
    // What libraries reach of the peak at large sizes; f32 runs on ordinary units, at 256
    // operations a clock.
    constexpr double reached = 0.75, plain_flops = 256, launch = 2e-6;
    const double flops = product.dtype == DType::F32 ? plain_flops : inputs.target.tensor_flops;
    const double computing =
        2 * m * n * k / (flops * inputs.target.multiprocessors * inputs.target.clock * reached);
    return launch + std::max(bytes / inputs.target.memory_bandwidth, computing);
  }

  std::optional<std::string> misfit(const PlanInputs&, const ir::Schedule&) const override {
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket&, const ir::Schedule&,
                     bool) const override {
    const LibraryForm form = library_form(inputs);
    ir::DeviceLaunch launch{.entry = library_schedule_name, .grid = {form.rows, Dim(1), Dim(1)}};
    launch.product = form.product;
    return {.source = {},
            .launches = {launch},
            .workspace_bytes = Dim(ir::LibraryProduct::workspace_bytes)};
  }
};

}  // namespace

LibraryForm library_form(const PlanInputs& inputs) {
  const auto* matmul = std::get_if<MatmulForm>(&inputs.form.kind);
  if (matmul == nullptr)
    return {std::nullopt,
            {},
            fmt::format("it is no matrix product but of kind {}", ir::kind_name(inputs.form))};
  try {
    LibraryForm form = Reader(inputs.region, inputs.form, *matmul).read();
    form.product->tf32 = inputs.target.tf32 && form.product->dtype == DType::F32;
    return form;
  } catch (const Refusal& refusal) {
    return {std::nullopt, {}, refusal.why};
  }
}

std::unique_ptr<KernelKind> make_library_kind() { return std::make_unique<LibraryKind>(); }

}  // namespace anydim::codegen_cuda
