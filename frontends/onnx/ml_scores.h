// What models of ai.onnx.ml share: rows of features, and scores that become probabilities.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// The first operand as rows of numbers; one of rank 1 is a single row.
Value feature_rows(Node& node, ir::DType dtype = ir::DType::F32);

// An attribute's real numbers; none where it is absent.
std::vector<double> reals_or_none(Node& node, std::string_view name);

// What the attribute post_transform makes of scores [rows, columns].
class PostTransform {
 public:
  explicit PostTransform(Node& node);
  PostTransform(Node& node, std::int64_t number);  // as TreeEnsemble numbers them
  // As ONNX Runtime has it: of a single column all but PROBIT leave the score as it is.
  Value of(Value scores, std::int64_t columns) const;
  const std::string& kind() const { return kind_; }

 private:
  Value probit(Value x) const;
  Value softmax_of_non_zero(Value x) const;

  Node& node_;
  std::string kind_;
};

// Numbers that one table of weights may have: a small file can ask for a large one.
inline constexpr std::int64_t most_table_numbers = std::int64_t{1} << 28;
void check_table(Node& node, std::int64_t rows, std::int64_t columns);

// The integer labels of a classifier; strings are refused.
Ints class_labels(Node& node);

// Labels by their places: those of rows.
Value labels_at(Node& node, const Ints& labels, Value places);

}  // namespace anydim::frontends
