// Random numbers. They are functions of where an element stands, of the node, of the loops' rounds
// around it, and of a number that differs from call to call (ir/random_seed.h)
// or that the node gives: so they are the same on every device and for any number of threads.
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <vector>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

constexpr std::uint64_t golden = 0x9e37'79b9'7f4a'7c15U;

Value word(Node& node, std::uint64_t value) {
  return node.constant(ir::Tensor::of(DType::U64, {}, std::vector<std::uint64_t>{value}));
}

// SplitMix64's finaliser (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// https://doi.org/10.1145/2660193.2660195).
Value mixed(Node& node, Value bits) {
  const auto folded = [&](int by) {
    return node.emit(Op::bit_xor,
                     {bits, node.emit(Op::shift_right, {bits, word(node, std::uint64_t(by))})});
  };
  bits = folded(30) * word(node, 0xbf58'476d'1ce4'e5b9U);
  bits = folded(27) * word(node, 0x94d0'49bb'1331'11ebU);
  return folded(31);
}

// `bits` and the next number of the sequence that they stand for.
Value stepped(Node& node, Value bits, Value steps) {
  const Value distance = cast(steps, DType::U64) * word(node, golden);
  return mixed(node, bits + distance);
}

// What one node draws.
class Numbers {
 public:
  Numbers(Node& node, std::optional<std::uint64_t> seed) : node_(node), seed_(seed) {}
  explicit Numbers(Node& node) : node_(node) {
    if (node.has_attribute("seed")) seed_ = std::bit_cast<std::uint64_t>(node.real("seed"));
  }

  // Uniform in [0, 1) in steps of 2^-24 (f64: 2^-53), as f32 or f64, of the dims that a vector
  // gives. `nonzero`: in (0, 1].
  Value uniform(Value shape, DType dtype, bool nonzero = false) {
    const Value count = reduce(Op::reduce_prod, shape, {0}, true);
    const Value bits = stepped(node_, stream(), positions(count));
    const int kept = dtype == DType::F64 ? 53 : 24;
    Value numbers = cast(
        node_.emit(Op::shift_right, {bits, word(node_, static_cast<std::uint64_t>(64 - kept))}),
        dtype);
    if (nonzero) numbers = numbers + 1;
    return node_.emit(Op::dyn_reshape, {numbers * std::ldexp(1.0, -kept), shape});
  }

  // Box and Muller's (https://doi.org/10.1214/aoms/1177706645).
  Value normal(Value shape, DType dtype) {
    const Value length = sqrt(log(uniform(shape, dtype, true)) * -2);
    const Value angle = uniform(shape, dtype) * (2 * std::numbers::pi);
    return length * node_.emit(Op::cos, {angle});
  }

 private:
  // Where numbers begin that are drawn at once: 64 bits of rank 0.
  Value stream() {
    Value bits = seed_ ? word(node_, *seed_) : cast(node_.random_seed(), DType::U64);
    bits = stepped(node_, bits, word(node_, node_.random_number()));
    for (const Value round : node_.rounds()) bits = stepped(node_, bits, round);
    return bits;
  }

  Node& node_;
  std::optional<std::uint64_t> seed_;
};

Value given_shape(Node& node) {
  const Ints dims = node.integers("shape");
  for (const std::int64_t dim : dims)
    if (dim < 0) node.malformed("has the dim {} in attribute 'shape'", dim);
  return node.index_vector(dims);
}

void give_scaled(Node& node, Value numbers, double scale, double offset, DType dtype) {
  node.output(0, cast(numbers * scale + offset, dtype));
}

void give_real(Node& node, Value shape, DType dtype, bool normally) {
  if (!ir::is_float(dtype)) node.malformed("gives real numbers, got dtype {}", ir::name_of(dtype));
  if (normally) {
    const double mean = node.real("mean", 0), scale = node.real("scale", 1);
    give_scaled(node, Numbers(node).normal(shape, computed_in(dtype)), scale, mean, dtype);
  } else {
    const double low = node.real("low", 0), high = node.real("high", 1);
    give_scaled(node, Numbers(node).uniform(shape, computed_in(dtype)), high - low, low, dtype);
  }
}

void give_like(Node& node, bool normally) {
  const Value x = node.operand(0);
  give_real(node, shape_of(x), node.element_type("dtype").value_or(x.dtype()), normally);
}

}  // namespace

void import_random_normal(Node& node) {
  give_real(node, given_shape(node), node.element_type("dtype").value_or(DType::F32), true);
}
void import_random_uniform(Node& node) {
  give_real(node, given_shape(node), node.element_type("dtype").value_or(DType::F32), false);
}
void import_random_normal_like(Node& node) { give_like(node, true); }
void import_random_uniform_like(Node& node) { give_like(node, false); }

// One where a number is below the element, which is how probable that is.
void import_bernoulli(Node& node) {
  const Value x = node.operand(0);
  const DType dtype = node.element_type("dtype").value_or(node.dtype()),
              computed = computed_in(node.dtype());
  const Value numbers = Numbers(node).uniform(shape_of(x), computed);
  node.output(0, cast(numbers < cast(x, computed), dtype));
}

// Classes as probable as exp(x) says, by Gumbel's trick: the greatest of x - log(-log(u)).
void import_multinomial(Node& node) {
  const Value x = node.operand(0);  // [batch, classes]
  if (const auto rank = x.rank(); rank != 2)
    node.malformed("takes an input of rank 2, got rank {}", rank);
  const DType dtype = node.element_type("dtype").value_or(DType::I32),
              computed = computed_in(node.dtype());
  const std::int64_t samples = node.integer("sample_size", 1);
  if (samples < 1) node.malformed("has sample_size = {}, expected at least 1", samples);
  const Value shape = concat({dim_of(x, 0), node.index_vector({samples}), dim_of(x, 1)}, 0);
  const auto minus_log = [&](Value value) { return -log(value); };
  const Value gumbel = minus_log(minus_log(Numbers(node).uniform(shape, computed, true)));
  const Value scores = with_axes(cast(x, computed), {1}) + gumbel;
  node.output(0, cast(node.emit(Op::arg_max, {scores},
                                {{"axis", std::int64_t{2}},
                                 {"keepdims", std::int64_t{0}},
                                 {"last", std::int64_t{0}}}),
                      dtype));
}

// It passes its input through unless it trains, which may be told when it runs.
void import_dropout(Node& node) {
  if (node.opset() < 12) {
    node.ignore_attribute("ratio");
    if (node.operand_count() > 1) node.malformed("takes 1 input before opset 12");
  }
  const Value x = node.operand(0);
  const auto training = node.constant_operand(2), known = node.constant_operand(1);
  if (node.has_operand(2) && node.operand(2).dtype() != DType::Bool)
    node.malformed("takes a bool as input 2 (training_mode)");
  const bool infers = !node.has_operand(2) ||
                      (training && training->elements() == 1 && training->integer_at(0) == 0) ||
                      (known && known->elements() == 1 && known->real_at(0) == 0);
  const auto all = [&](DType dtype) {
    return node.emit(Op::dyn_full, {node.scalar(dtype, 1), shape_of(x)});
  };
  if (infers) {
    node.ignore_attribute("seed");
    node.output(0, x);
    if (node.wants_output(1)) node.output(1, all(node.opset() >= 10 ? DType::Bool : node.dtype()));
    return;
  }
  Numbers numbers(node, node.has_attribute("seed")
                            ? std::optional(static_cast<std::uint64_t>(node.integer("seed")))
                            : std::nullopt);
  const DType computed = computed_in(node.dtype());
  const Value ratio =
      node.has_operand(1) ? cast(rank_0(node.operand(1)), computed) : node.scalar(computed, 0.5);
  const Value trains = rank_0(node.operand(2));
  const Value kept = !trains | (numbers.uniform(shape_of(x), computed) >= ratio);
  const Value share = where(trains, 1 - ratio, 1);
  const Value scaled = cast(cast(x, computed) / share, node.dtype());
  node.output(0, where(kept, scaled, 0));
  if (node.wants_output(1)) node.output(1, kept);
}

}  // namespace anydim::frontends
