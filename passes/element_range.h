// What the elements of a block's values can be, whatever a call's inputs: intervals, and how long
// rows can be.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/loops/value_range.h"
#include "ir/module.h"

namespace anydim::passes {

struct ElementRange {
  ir::ValueRange range;
  // Euclidean, of a row along the last dim that holds no NaN; infinity: not known.
  double row_norm = std::numeric_limits<double>::infinity();
};

// Elementwise ops have the ranges of scalar steps (ir/loops/value_range.h); moved elements those of
// what they are moved from (tables that ids are looked up in); sums, means, products with weights
// and attention's mixtures are bounded by how many terms they have, rounded in any order. Rows of a
// layer norm over n elements, or of x / sqrt(mean(x^2) + epsilon), are at most sqrt(n) long before
// their gain. Everything else, and whatever may overflow, may be anything.
class ElementRanges {
 public:
  // What rows of norms and softmax are known to be.
  enum class Norms : std::uint8_t {
    Bounded,  // as long as they can be, whatever they are norms of, or NaN: no range before a norm
              // is looked at
    Numbers,  // no NaN where what they are norms of is finite; products are bounded by magnitudes
              // alone, which is quick
  };
  // `block` is the body of `function`. Elements of its float inputs are taken to be at most
  // `input_limit` either way and no NaN; infinity: they may be anything.
  ElementRanges(const ir::Function& function, const ir::Block& block,
                double input_limit = std::numeric_limits<double>::infinity(),
                Norms norms = Norms::Bounded);

  const ElementRange& of(ir::ValueId value);
  // Whether no weight of an attention over at least one key can be NaN: its scores are finite
  // numbers. Only with Norms::Numbers.
  bool weights_are_numbers(const ir::Binding& attention);
  // The float inputs that ranges asked for so far rest on.
  const std::set<ir::ValueId>& inputs_read() const { return inputs_read_; }

 private:
  const ir::TensorType& type(ir::ValueId value) const { return function_.tensor_type(value); }
  const ir::Binding* definition(ir::ValueId value) const;
  std::vector<ir::ValueId> needed(ir::ValueId value) const;
  const ElementRange& known(ir::ValueId value) const { return known_.at(value); }

  ElementRange computed(ir::ValueId value);
  ElementRange of_input(ir::ValueId value);
  ElementRange of_constant(const ir::Tensor& tensor) const;
  ElementRange of_layer_norm(const ir::Binding& binding) const;
  ElementRange of_elementwise(const ir::Binding& binding) const;
  ElementRange of_product(const ir::Binding& binding) const;
  ElementRange of_integer_product(const ir::Binding& binding) const;
  ElementRange of_reduction(const ir::Binding& binding) const;
  ElementRange of_moved(const ir::Binding& binding) const;
  bool keeps_rows(const ir::Binding& binding) const;
  // x and n, where the value is x / sqrt(mean(x^2) + epsilon) over the last dim, of extent n.
  struct RootMeanSquare {
    ir::ValueId source = ir::no_value;
    double length = 0;
  };
  std::optional<RootMeanSquare> root_mean_square_norm(ir::ValueId value) const;
  bool has_numeric_norm(ir::ValueId value) const;
  bool scores_are_finite(const ir::Binding& attention) const;
  std::optional<double> positive_number(ir::ValueId value) const;

  const ir::Function& function_;
  const double input_limit_;
  const Norms norms_;
  std::map<ir::ValueId, const ir::Binding*> definitions_;
  std::map<ir::ValueId, ElementRange> known_;
  std::set<ir::ValueId> inputs_read_;
};

// A squared deviation below this is lost in float32, where only epsilon keeps the quotient of
// nearly equal elements small.
inline constexpr double least_epsilon = 1e-30;

}  // namespace anydim::passes
