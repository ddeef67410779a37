// Windows that move over the last dims of x [N, C, d...]: what Conv, pooling and their kin have in
// common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// One integer for each of the dims that windows move over: known already, or an i64 vector of the
// graph.
struct Sizes {
  std::optional<Ints> known{};
  Value value = no_value;
  Sizes(Ints elements) : known(std::move(elements)) {}  // NOLINT: integers are sizes
  explicit Sizes(Value vector) : value(vector) {}
  bool all(std::int64_t element) const;  // known, and each is `element`
};

// first, first + 1, ... below last.
Ints axes_between(std::size_t first, std::size_t last);
// Elements first to last - 1 of a value's dims.
Sizes dims_between(Node& node, Value value, std::size_t first, std::size_t last);
Value vector_of(Node& node, const Sizes& sizes);
// Element by element; op is add, sub, mul, div (of what is not negative), max or min. Malformed
// beyond 64 bits.
Sizes combine(Node& node, ir::Op op, const Sizes& a, const Sizes& b);

// x [N, d..., C] as [N, C, d...], and back.
Value channels_first(Node& node, Value x);
Value channels_last(Node& node, Value x);

class Windows {
 public:
  // Reads the attributes strides, dilations, pads and auto_pad of a node whose windows of `kernel`
  // move over x. Malformed where one breaks its rule.
  Windows(Node& node, Value x, Sizes kernel);
  // The attribute kernel_shape, which must be there (pooling).
  static Sizes kernel_attribute(Node& node, Value x);
  // Dims of the weight from 2 on; held against kernel_shape where it is given.
  static Sizes kernel_of(Node& node, Value x, Value weight);
  // The attribute `name`, one integer of at least `least` for each dim; `fallback` where it is
  // missing.
  static Ints attribute(Node& node, const char* name, std::size_t count, std::int64_t fallback,
                        std::int64_t least);

  // Windows of `kernel` that move by one, over x with `before` and `after` around it.
  Windows moved_by_one(Sizes kernel, Sizes before, Sizes after) const;
  // For each dim a window's places that have an element of x in any window: the first, and how
  // many. nullopt where these are all or none, or sizes are not known.
  struct Seen {
    Ints first, count;
  };
  std::optional<Seen> seen() const;
  // Windows of these places alone, as many as there are of the whole ones.
  Windows of_seen(const Seen& seen) const;
  // A last window that begins before the end of what is padded counts where it is cut off, too
  // (ceil_mode).
  void round_up();

  std::size_t count() const { return count_; }
  const Sizes& kernel() const { return kernel_; }
  const Ints& strides() const { return strides_; }
  const Ints& dilations() const { return dilations_; }
  const Sizes& before() const { return before_; }
  const Sizes& after() const { return after_; }  // without what round_up adds
  const Sizes& extra() const { return extra_; }  // what round_up adds
  bool pads() const { return !(before_.all(0) && after_.all(0) && extra_.all(0)); }
  // What a window spans: (kernel - 1) dilation + 1.
  Sizes reach() const;

  // `before` and `after` elements more along the axes that windows move over, fewer where negative.
  Value pad(Value x, Value fill, const Sizes& before, const Sizes& after) const;
  // x with `fill` (rank 0; no_value: 0) around it.
  Value padded(Value x, Value fill = no_value) const;
  // [N, C, places of windows..., places in a window...] of x padded. Malformed where no window
  // fits.
  Value over(Value padded) const;
  // How many elements each window has of x (and of `after` and `before` where padding counts), with
  // a dim of 1 for each that windows don't move over.
  Value elements(ir::DType dtype, bool padding_counts) const;
  // The last `count` axes of what over() gives.
  Ints window_axes() const;

 private:
  void read_pads();
  void pad_to_same(bool upper);
  Value pad(Value x, Value fill, Ints axes, const Sizes& before, const Sizes& after) const;
  void check_fit(Value padded) const;
  bool tiles() const;
  Value tiled(Value x) const;

  Node& node_;
  std::size_t count_;
  Sizes kernel_, extents_;
  Ints strides_, dilations_;
  Sizes before_, after_, extra_;
};

// The mean of each window over x [N, C, ...]: [N, C, places of windows...]. What lies in its
// padding is left out, or a 0 where padding counts.
Value means_of_windows(Node& node, Value x, const Windows& windows, bool padding_counts);

}  // namespace anydim::frontends
