// Mixtures of experts of ONNX Runtime (domain com.microsoft): each row of the input goes through
// the k experts with the highest scores, whose results are weighted and added up.

#include <limits>
#include <string>
#include <vector>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// The matrix and the bias of all experts for one product; no operand where the operator has none.
struct Layer {
  std::size_t weights, bias;
  std::size_t scales = 0, zero_points = 0;  // of packed numbers
  std::int64_t bits = 0;                    // 0: the weights are numbers as they are
};

class Experts {
 public:
  Experts(Node& node, Layer first, Layer second, Layer third, std::size_t mixing)
      : node_(node), computed_(computed_in(node.dtype())), first_(first), second_(second),
        third_(third), mixing_(mixing) {}

  void run() {
    check();
    const Value x = node_.operand(0), hidden = dim_of(x, -1);
    const Value rows = cast(reshaped(x, {node_.index_vector({-1}), hidden}), computed_);
    const auto [chosen, shares] = choose();  // [rows, k] both
    // Only experts that some row chose are looked at.
    const Value all = positions(node_.index_vector({experts_}));
    const Value asked_for = any(equal(with_axes(all, {1, 2}), with_axes(chosen, {0})), {1, 2});
    const Value used = without_axes(node_.emit(Op::nonzero, {asked_for}), {0});
    const Value none = node_.emit(Op::dyn_full, {node_.scalar(computed_, 0), shape_of(rows)});
    Node::Loop loop(node_, without_axes(dim_of(used, 0), {0}), no_value, {none});
    expert_ = gather(used, loop.round(), 0);
    const Value by_it = equal(chosen, expert_);
    const Value places =
        without_axes(node_.emit(Op::nonzero, {any(by_it, {1})}), {0});  // of its rows
    const auto of_them = [&](Value value) { return gather(value, places, 0); };
    const Value share = reduce(Op::reduce_sum, of_them(where(by_it, shares, 0)), {1}, true);
    const Value y = through(second_, activated(of_them(rows))) * share;
    const Value sum = node_.emit(Op::scatter_nd, {loop.carried()[0], with_axes(places, {1}), y},
                                 {{"reduction", std::string("add")}});
    const Value result = loop.close({loop.goes_on(), sum})[0];
    node_.output(0, cast(node_.emit(Op::dyn_reshape, {result, shape_of(x)}), node_.dtype()));
  }

 private:
  Value any(Value flags, Ints axes) {
    return cast(reduce(Op::reduce_max, cast(flags, DType::I32), std::move(axes), false),
                DType::Bool);
  }

  void check() {
    if (node_.flag("use_sparse_mixer", false)) node_.unsupported("has use_sparse_mixer = 1");
    if (node_.flag("swiglu_limit_after_activation", false))
      node_.unsupported("has swiglu_limit_after_activation = 1");
    const Value scores = node_.operand(1);
    node_.check_rank(1, 2);
    const auto count = scores.extent(1);
    if (!count) node_.unsupported("has a number of experts that is not known before it runs");
    experts_ = *count;
    chosen_ = node_.integer("k", 1);
    if (chosen_ < 1 || chosen_ > experts_)
      node_.malformed("has k = {}; expected 1 to {}, one for each column of input 1", chosen_,
                      experts_);
    for (const Layer* layer : {&first_, &second_, &third_}) {
      if (!node_.has_operand(layer->weights)) continue;
      const Value weights = node_.operand(layer->weights);
      node_.check_rank(layer->weights, 3);
      if (const auto held = weights.extent(0); held && *held != experts_)
        node_.malformed("has {} experts in input {}, but {} columns in input 1", *held,
                        layer->weights, experts_);
    }
    activation_ = node_.string("activation_type", "relu");
    fusion_ = node_.integer("swiglu_fusion", 0);
    alpha_ = node_.real("activation_alpha", 1);
    beta_ = node_.real("activation_beta", 0);
    limit_ = node_.real("swiglu_limit", std::numeric_limits<double>::infinity());
    block_ = node_.integer("block_size", 0);
    if (fusion_ < 0 || fusion_ > 2)
      node_.malformed("has swiglu_fusion = {}; expected 0, 1 or 2", fusion_);
    if (activation_ == "swiglu" && (fusion_ == 0) != node_.has_operand(third_.weights)) {
      node_.malformed("has swiglu_fusion = {} {} an input {} (fc3_experts_weights)", fusion_,
                      fusion_ == 0 ? "without" : "beside", third_.weights);
    }
  }

  struct Choice {
    Value experts, shares;
  };
  // The highest scores of each row, and how much each counts: its part of all, or of those chosen.
  Choice choose() {
    const Value scores = cast(node_.operand(1), computed_);
    const auto best =
        node_.emit_many(Op::top_k, {scores}, {{"k", chosen_}, {"axis", std::int64_t{-1}}}, 2);
    // Those of quantised experts always count among the chosen, as ONNX Runtime has it on CPUs.
    const bool mixed = mixing_ != 0 && node_.has_operand(mixing_);
    const bool among_chosen =
        node_.flag("normalize_routing_weights", false) || (mixing_ != 0 && !mixed);
    const auto softmax = [&](Value x) {
      return node_.emit(Op::softmax, {x}, {{"axis", std::int64_t{-1}}});
    };
    const auto taken = [&](Value from) {
      return node_.emit(Op::gather_elements, {from, best[1]}, {{"axis", std::int64_t{1}}});
    };
    if (!mixed) return {best[1], among_chosen ? softmax(best[0]) : taken(softmax(scores))};
    Value shares = taken(cast(node_.operand(mixing_), computed_));
    if (among_chosen) {
      const Value sum = reduce(Op::reduce_sum, shares, {1}, true);
      shares = shares / sum;
    }
    return {best[1], shares};
  }

  Value of_expert(std::size_t operand) { return gather(node_.operand(operand), expert_, 0); }

  // [rows of results, width of the input]
  Value matrix(const Layer& layer) {
    const Value held = of_expert(layer.weights);
    if (layer.bits == 0) return cast(held, computed_);
    const Value numbers = cast(unpacked(node_, held, layer.bits), computed_);
    const auto half = static_cast<double>(std::int64_t{1} << (layer.bits - 1));
    const bool blocks = block_ > 0;
    // Numbers and what there is one of for a row or for each block of it, along a last axis.
    Value zero = node_.scalar(computed_, half);
    const Value scales = cast(of_expert(layer.scales), computed_);
    if (node_.has_operand(layer.zero_points)) {
      const auto count = scales.extent(-1);
      if (!count) node_.unsupported("has scales of a shape that is not known before it runs");
      zero = cast(slice(unpacked(node_, of_expert(layer.zero_points), layer.bits), -1, 0, *count),
                  computed_);
      zero = with_axes(zero, {blocks ? 2 : 1});
    }
    const Value scale = with_axes(scales, {blocks ? 2 : 1});
    const Value apart = blocks ? reshaped(numbers, {dim_of(numbers, 0), node_.index_vector({-1}),
                                                    node_.index_vector({block_})})
                               : numbers;
    const Value real = (apart - zero) * scale;
    return blocks ? node_.emit(Op::dyn_reshape, {real, shape_of(numbers)}) : real;
  }

  Value through(const Layer& layer, Value rows) {
    const Value columns = transpose(matrix(layer), {1, 0});
    const Value product = matmul(rows, columns);
    return node_.has_operand(layer.bias) ? product + cast(of_expert(layer.bias), computed_)
                                         : product;
  }

  Value activated(Value rows) {
    const Value up = through(first_, rows);
    if (activation_ == "swiglu") {
      if (fusion_ == 0) return gated(up, through(third_, rows));
      constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
      if (fusion_ == 2) {
        const auto width = node_.operand(first_.weights).extent(1);
        if (!width) node_.unsupported("has weights of a shape that is not known before it runs");
        return gated(slice(up, 1, 0, *width / 2), slice(up, 1, *width / 2, end));
      }
      return gated(slice(up, 1, 0, end, 2), slice(up, 1, 1, end, 2));
    }
    const Value result = activation_ == "identity" ? up
                         : activation_ == "gelu"   ? node_.emit(Op::gelu_tanh, {up})
                         : activation_ == "silu"
                             ? swish(up)
                             : named_activation(activation_, up, std::nullopt, std::nullopt);
    return node_.has_operand(third_.weights) ? result * through(third_, rows) : result;
  }

  Value gated(Value gate, Value line) {
    if (limit_ < std::numeric_limits<double>::infinity()) {
      const Value most = node_.scalar(computed_, limit_), least = node_.scalar(computed_, -limit_);
      gate = min(gate, most);
      line = max(min(line, most), least);
    }
    if (beta_ != 0) line = line + beta_;
    return swish(gate, alpha_) * line;
  }

  Node& node_;
  const DType computed_;
  const Layer first_, second_, third_;
  const std::size_t mixing_;  // an operand that says how much each expert counts; 0: none
  std::int64_t experts_ = 0, chosen_ = 0, fusion_ = 0, block_ = 0;
  double alpha_ = 1, beta_ = 0, limit_ = 0;
  std::string activation_;
  Value expert_ = no_value;
};

}  // namespace

// Inputs: rows, scores, then the weights and the bias of each product.
void import_experts(Node& node) { Experts(node, {2, 3}, {4, 5}, {6, 7}, 0).run(); }

// Inputs: rows, scores, then the weights, scales and bias of each product, their zero points, and
// how much each expert counts. Weights are packed whole numbers.
void import_quantised_experts(Node& node) {
  if (const std::string type = node.string("quant_type", "int"); type != "int")
    node.unsupported("has quant_type = {}; Anydim supports 'int'", quoted_name(type));
  if (const std::int64_t order = node.integer("weights_prepacked", -1); order == 1)
    node.unsupported("has weights_prepacked = 1: weights in the order of one device");
  for (std::size_t i = 15; i < node.operand_count(); ++i)
    if (node.has_operand(i)) node.unsupported("has an input {}", i);
  node.integer("accuracy_level", 0);  // how coarsely a device may compute
  const std::int64_t all = node.integer("expert_weight_bits", 4);
  const auto bits = [&](const std::string& name) {
    const std::int64_t given = node.integer(name, all);
    if (given != 2 && given != 4 && given != 8)
      node.unsupported("has weights of {} bits; Anydim supports 2, 4 and 8", given);
    return given;
  };
  const Layer first{2, 4, 3, 11, bits("fc1_expert_weight_bits")},
      second{5, 7, 6, 12, bits("fc2_expert_weight_bits")},
      third{8, 10, 9, 13, bits("fc3_expert_weight_bits")};
  for (const Layer& layer : {first, second, third}) {
    if (node.has_operand(layer.weights) && !node.has_operand(layer.scales))
      node.malformed("has an input {} without scales (input {})", layer.weights, layer.scales);
  }
  Experts(node, first, second, third, 14).run();
}

}  // namespace anydim::frontends
