#include "tests/support/attention_regions.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ir/error.h"

namespace anydim::tests {

std::string text_of(const SegmentedAttention& attention) {
  const bool widened = attention.dtype != "f32";
  return "fn @main(%x: Tensor[(t, 192), " + attention.dtype + "], %offsets: Tensor[(n), i64]" +
         (attention.bias ? ", %bias: Tensor[(2, t, t), f32]" : "") +
         (attention.work ? ", %work: Tensor[(n - 1, 2), i64]" : "") + R"() -> Tensor[(t, 64), f32]
  where t in [0, 4096], n in [1, 64] {
)" +
         (widened ? "  %w = cast(%x) {to = f32}\n  %xq, %xk, %xv = split(%w) {axis = 1}"
                  : "  %xq, %xk, %xv = split(%x) {axis = 1}") +
         R"(
  %heads = shape(t, 2, 32)
  %q3 = dyn.reshape(%xq, %heads)
  %k3 = dyn.reshape(%xk, %heads)
  %v3 = dyn.reshape(%xv, %heads)
  %q = transpose(%q3) {perm = (1, 0, 2)}
  %k = transpose(%k3) {perm = (1, 0, 2)}
  %v = transpose(%v3) {perm = (1, 0, 2)}
  %a = attention(%q, %k, %v, )" +
         (attention.bias ? "%bias" : "none") + ", %offsets" + (attention.work ? ", %work" : "") +
         R"() {scale = 0.17677669}
  %m = transpose(%a) {perm = (1, 0, 2)}
  %flat = shape(t, 64)
  %r = dyn.reshape(%m, %flat)
  return %r
})";
}

void fill(ir::Tensor& tensor, const std::vector<std::int64_t>& values) {
  internal_check(tensor.elements() == static_cast<std::int64_t>(values.size()),
                 "there is a value for each element");
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.set_integer(static_cast<std::int64_t>(i), values[i]);
}

void fill_offsets(ir::Tensor& offsets, std::int64_t rows) {
  const std::vector<std::int64_t> lengths{3, 0, 70, 1, 17, 130};
  const std::int64_t segments = offsets.elements() - 1;
  std::int64_t at = 0;
  for (std::int64_t s = 0; s <= segments; ++s) {
    offsets.set_integer(s, s == segments ? rows : at);
    at = std::min(rows, at + lengths[static_cast<std::size_t>(s) % lengths.size()]);
  }
}

void fill_infinite_scores(ir::Tensor& bias) {
  const std::int64_t length = bias.dims().back();
  const double infinity = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      if (j < i || i == 3) bias.set_real(i * length + j, -infinity);
      if (i == 5 && j == 9) bias.set_real(i * length + j, infinity);
      if (i == 6 && j == 8) bias.set_real(i * length + j, std::numeric_limits<double>::quiet_NaN());
    }
  }
}

const WrongLists& wrong_lists() {
  static const WrongLists lists{
      .offsets = {0, 10, 30, 40, 50},
      .right = {1, 0, 0, 20, 2, 30, 3, 40},
      .wrong = {{{0, 0, 1, 10, 2, 30, 3, 40}, 1},  // as they lie
                {{1, 0, 2, 20, 0, 30, 3, 40}, 2},  // equal ones in another order
                {{1, 0, 0, 20, 0, 30, 3, 40}, 2},  // one twice
                {{1, 0, 0, 20, 2, 31, 3, 41}, 2},  // other sums
                {{1, 5, 0, 25, 2, 35, 3, 45}, 0},  // that do not begin with 0
                {{1, 0, 0, 20, 2, 30, 4, 40}, 3},  // none that there is
                {{1, 0, -1, 20, 2, 30, 3, 40}, 1},
                {{1, 0, 0, -20, 2, 1LL << 40, 3, -9}, 1},
                {{1LL << 40, 50, 0, 50, 2, 50, 3, 50}, 0}}};
  return lists;
}

const std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>& wrong_offsets() {
  static const std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> offsets{
      {{1, 10, 20, 50}, 1},
      {{0, 30, 20, 50}, 20},
      {{0, 10, 20, 49}, 49},
      {{0, 1000, 20, 50}, 20},
      {{0, -7, 20, 50}, -7}};
  return offsets;
}

}  // namespace anydim::tests
