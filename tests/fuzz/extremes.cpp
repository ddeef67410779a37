#include "tests/fuzz/extremes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

#include "ir/text/parse.h"
#include "tests/support/chance.h"

namespace anydim::tests {

using namespace ir;

namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::size_t calls = 10;

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       greatest = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::int64_t, 18> extremes{least,
                                                least + 1,
                                                -(std::int64_t{1} << 40),
                                                -(std::int64_t{1} << 31) - 1,
                                                -(std::int64_t{1} << 31),
                                                -128,
                                                -1,
                                                0,
                                                1,
                                                127,
                                                255,
                                                (std::int64_t{1} << 31) - 1,
                                                std::int64_t{1} << 31,
                                                std::int64_t{1} << 32,
                                                std::int64_t{1} << 40,
                                                std::int64_t{1} << 62,
                                                greatest - 1,
                                                greatest};

// Text of a module and the inputs of its calls, drawn together.
class Writer : public Chance {
 public:
  explicit Writer(std::uint64_t seed) : Chance(seed) {
    inputs_.resize(calls);
    for (std::size_t call = 0; call < calls; ++call) {
      boldness_.push_back(std::array<std::size_t, 4>{0, 30, 60, 100}[below(4)]);
      for (std::int64_t& extent : extents_.emplace_back(3))
        extent = std::array<std::int64_t, 7>{0, 1, 2, 3, 3, 5, 40}[below(7)];
    }
  }

  // A tensor over the symbols n, m and s, or constants.
  std::string tensor(std::size_t rank, DType dtype = DType::F32) {
    std::vector<std::string> dims;
    std::vector<Integers> of_calls(calls);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t symbol = below(4);
      const std::int64_t constant = std::array<std::int64_t, 3>{1, 3, 4}[below(3)];
      dims.push_back(symbol < 3 ? std::array<std::string, 3>{"n", "m", "s"}[symbol]
                                : fmt::format("{}", constant));
      for (std::size_t call = 0; call < calls; ++call)
        of_calls[call].push_back(symbol < 3 ? extents_[call][symbol] : constant);
    }
    return parameter(dtype, dims, of_calls, [&](std::size_t, std::int64_t) {
      return static_cast<std::int64_t>(below(7)) - 3;
    });
  }

  // Integers that a call gives: from [low, high], or extreme. Straight from an input, or by a way
  // that leaves the numbers as they are.
  std::string integers(std::optional<std::size_t> count, std::int64_t low, std::int64_t high,
                       DType dtype = DType::I64) {
    const auto number = [&](std::size_t call, std::int64_t) {
      if (chance(boldness_[call])) return extremes[below(extremes.size())];
      return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
    };
    const auto given = [&](std::optional<std::size_t> wanted) {
      const Integers dims = wanted ? Integers{static_cast<std::int64_t>(*wanted)} : Integers{};
      std::vector<std::string> names;
      for (const std::int64_t dim : dims) names.push_back(fmt::format("{}", dim));
      return parameter(dtype, names, std::vector<Integers>(calls, dims), number);
    };
    const auto zeros = [&] {
      return parameter(dtype, {}, std::vector<Integers>(calls),
                       [](std::size_t, std::int64_t) { return std::int64_t{0}; });
    };
    switch (below(6)) {
      case 0: return apply(fmt::format("add({}, {})", given(count), zeros()));
      case 1: {
        const std::string value = given(count);
        return apply(fmt::format("max({}, {})", value, value));
      }
      case 2:
        if (!count) return apply(fmt::format("gather({}, constant(i64 () [0]))", given(1)));
        if (*count > 1) {
          const std::string first = given(1);
          return apply(fmt::format("concat({}, {}) {{axis = 0}}", first, given(*count - 1)));
        }
        return given(count);
      default: return given(count);
    }
  }
  std::string integers(std::size_t count, std::int64_t low, std::int64_t high) {
    return integers(std::optional(count), low, high);
  }
  std::string integer(std::int64_t low, std::int64_t high, DType dtype = DType::I64) {
    return integers(std::nullopt, low, high, dtype);
  }
  // A tensor of any shape, its elements as above.
  std::string indices(std::size_t rank, std::int64_t low, std::int64_t high,
                      std::optional<std::int64_t> last = {}) {
    std::vector<std::string> dims;
    std::vector<Integers> of_calls(calls);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t extent =
          i + 1 == rank && last ? *last : static_cast<std::int64_t>(below(3)) + 1;
      dims.push_back(fmt::format("{}", extent));
      for (Integers& each : of_calls) each.push_back(extent);
    }
    return parameter(DType::I64, dims, of_calls, [&](std::size_t call, std::int64_t) {
      if (chance(boldness_[call] / 4)) return extremes[below(extremes.size())];
      return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
    });
  }

  std::string apply(const std::string& application) {
    std::string name = fmt::format("%v{}", values_++);
    body_ += fmt::format("  {} = {}\n", name, application);
    return name;
  }
  void line(const std::string& text) { body_ += text; }
  std::string fresh() { return fmt::format("%v{}", values_++); }
  bool is_shape(const std::string& value) const {
    return body_.find(value + " = shape_of") != std::string::npos;
  }

  RandomGraph finish(const std::vector<std::string>& results) {
    RandomGraph graph;
    graph.module =
        parse(fmt::format("fn @main({}) {{\n{}  return {}\n}}\n", fmt::join(parameters_, ", "),
                          body_, fmt::join(results, ", ")));
    graph.calls = std::move(inputs_);
    return graph;
  }

 private:
  template <typename Element>
  std::string parameter(DType dtype, const std::vector<std::string>& dims,
                        const std::vector<Integers>& extents, Element element) {
    std::string name = fmt::format("%x{}", parameters_.size());
    parameters_.push_back(
        fmt::format("{}: Tensor[({}), {}]", name, fmt::join(dims, ", "), name_of(dtype)));
    for (std::size_t call = 0; call < calls; ++call) {
      Tensor tensor(dtype, extents[call]);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        if (is_float(dtype)) tensor.set_real(i, static_cast<double>(element(call, i)));
        else tensor.set_integer(i, element(call, i));
      }
      inputs_[call].push_back(std::move(tensor));
    }
    return name;
  }

  std::vector<std::size_t> boldness_;  // percent of a call's numbers that are extreme
  std::vector<Integers> extents_;      // of n, m and s
  std::vector<std::string> parameters_;
  std::vector<std::vector<Tensor>> inputs_;
  std::string body_;
  std::size_t values_ = 0;
};

struct Drawn {
  const char* op;
  std::function<std::string(Writer&)> draw;  // the value of interest
  bool grows = false;                        // it may be much larger than what it is made of
};

const std::vector<std::string> pad_modes{"constant", "edge", "reflect", "wrap"};
const std::vector<std::string> reductions{"none", "add", "mul", "min", "max"};

DType small_dtype(Writer& w) {
  return w.pick(std::vector<DType>{DType::F32, DType::F32, DType::I64, DType::U8, DType::I32});
}
DType index_dtype(Writer& w) {
  return w.pick(std::vector<DType>{DType::I64, DType::I64, DType::I32, DType::I8, DType::U8});
}

std::string draw_reduce(Writer& w, const char* op) {
  const std::size_t rank = 1 + w.below(3);
  const std::string x = w.tensor(rank);
  const auto reach = static_cast<std::int64_t>(rank);
  return w.apply(fmt::format("{}({}, {}) {{keepdims = {}, empty_keeps = {}}}", op, x,
                             w.integers(w.below(3), -reach, reach - 1), 1, w.below(2)));
}

std::string draw_slice(Writer& w) {
  const std::size_t rank = 1 + w.below(3), count = 1 + w.below(rank);
  const std::string x = w.tensor(rank, small_dtype(w));
  const auto reach = static_cast<std::int64_t>(rank);
  const std::string starts = w.integers(count, -6, 6), ends = w.integers(count, -6, 6);
  Integers axes(rank);
  for (std::size_t i = 0; i < rank; ++i)
    axes[i] = static_cast<std::int64_t>(i) - (w.chance(30) ? reach : 0);
  axes.resize(count);
  std::string last = w.chance(50)
                         ? fmt::format(", constant(i64 ({}) [{}])", count, fmt::join(axes, ", "))
                         : fmt::format(", {}", w.integers(count, -reach, reach - 1));
  if (w.chance(80)) last += ", " + w.integers(count, -2, 2);
  return w.apply(fmt::format("dyn.strided_slice({}, {}, {}{})", x, starts, ends, last));
}

std::string draw_pad(Writer& w) {
  const std::size_t rank = 1 + w.below(2);
  const std::string x = w.tensor(rank);
  const std::string before = w.integers(rank, -2, 3), after = w.integers(rank, -2, 3);
  return w.apply(fmt::format("dyn.pad({}, constant(f32 () [7]), {}, {}) {{mode = \"{}\"}}", x,
                             before, after, w.pick(pad_modes)));
}

std::string draw_resize(Writer& w) {
  const std::size_t rank = 1 + w.below(2);
  const std::string x = w.tensor(rank);
  const std::string sizes = w.integers(rank, 1, 6);
  const std::string scales = w.apply(fmt::format("ones() {{shape = ({}), dtype = f32}}", rank));
  return w.apply(
      fmt::format("dyn.resize({}, {}, {}) {{mode = \"{}\", coordinates = \"{}\"}}", x, scales,
                  sizes, w.pick(std::vector<std::string>{"nearest", "linear", "cubic"}),
                  w.pick(std::vector<std::string>{"half_pixel", "asymmetric", "align_corners"})));
}

// The trip count may be anything; the condition ends the loop after a few.
std::string draw_loop(Writer& w) {
  const std::string x = w.tensor(1), trips = w.integer(0, 4), last = w.fresh(), all = w.fresh();
  const std::string i = w.fresh(), on = w.fresh(), c = w.fresh(), next = w.fresh(), go = w.fresh();
  w.line(
      fmt::format("  {}, {} = loop({}, none, {}) body({}, {}, {}) {{\n    {} = add({}, {})\n    {} "
                  "= less({}, constant(i64 () [3]))\n"
                  "    yield {}, {}, {}\n  }}\n",
                  last, all, trips, x, i, on, c, next, c, c, go, i, go, next, next));
  return w.chance(50) ? last : all;
}

std::string draw_list(Writer& w, int kind) {
  const std::string a = w.tensor(1), b = w.tensor(1),
                    list = w.apply(fmt::format("list({}, {})", a, b)), at = w.integer(-2, 2);
  if (kind == 0) return w.apply(fmt::format("list_at({}, {})", list, at));
  const std::string made = kind == 1 ? w.apply(fmt::format("list_insert({}, {}, {})", list, a, at))
                                     : w.apply(fmt::format("list_erase({}, {})", list, at));
  return w.apply(fmt::format("list_concat({}) {{axis = 0}}", made));
}

std::string draw_scatter(Writer& w) {
  const std::string data = w.tensor(1), at = w.indices(1, -1, 1, 3);
  return w.apply(fmt::format(
      "scatter_elements({}, {}, constant(f32 (3) [1, 2, 3])) {{axis = 0, reduction = \"{}\"}}",
      data, at, w.pick(reductions)));
}

std::string draw_scatter_nd(Writer& w) {
  const std::string data = w.tensor(2), at = w.indices(2, -1, 1, 2);
  const std::string updates =
      w.apply(fmt::format("dyn.ones(gather(shape_of({}), constant(i64 (1) [0])))", at));
  return w.apply(fmt::format("scatter_nd({}, {}, {}) {{reduction = \"{}\"}}", data, at, updates,
                             w.pick(reductions)));
}

// Arithmetic on the numbers themselves: what divides, shifts and narrows.
std::string draw_arithmetic(Writer& w, const char* op) {
  const DType dtype = w.pick(
      std::vector<DType>{DType::I64, DType::I32, DType::I16, DType::I8, DType::U8, DType::U64});
  const std::string a = w.integers(3, -4, 4, dtype),
                    b = w.integers(w.chance(50) ? 3 : 1, 1, 5, dtype);
  return w.apply(fmt::format("{}({}, {})", op, a, b));
}

std::string draw_cast(Writer& w) {
  const std::string a = w.integers(std::optional<std::size_t>(3), -4, 4,
                                   w.pick(std::vector<DType>{DType::I64, DType::F32, DType::F64}));
  return w.apply(fmt::format(
      "cast({}) {{to = {}}}", a,
      w.pick(std::vector<std::string>{"i32", "i8", "u8", "u32", "u64", "i64", "bool", "f32"})));
}

std::string draw_reshape(Writer& w) {
  const std::size_t rank = 1 + w.below(3);
  const std::string x = w.tensor(1 + w.below(3));
  return w.apply(fmt::format("dyn.reshape({}, {}) {{zero_copies = {}}}", x, w.integers(rank, -1, 4),
                             w.below(2)));
}

const std::vector<Drawn>& drawn() {
  static const std::vector<Drawn> list{
      {"dyn.full",
       [](Writer& w) {
         return w.apply(
             fmt::format("dyn.full(constant(f32 () [3]), {})", w.integers(1 + w.below(2), 0, 4)));
       },
       true},
      {"dyn.zeros",
       [](Writer& w) {
         return w.apply(fmt::format("dyn.zeros({})", w.integers(1 + w.below(3), 0, 4)));
       },
       true},
      {"dyn.ones",
       [](Writer& w) {
         return w.apply(fmt::format("dyn.ones({})", w.integers(1 + w.below(3), 0, 4)));
       },
       true},
      {"dyn.arange",
       [](Writer& w) {
         const DType dtype = w.pick(std::vector<DType>{DType::I64, DType::I64, DType::I32});
         const std::string start = w.integer(-3, 3, dtype), stop = w.integer(-3, 9, dtype);
         return w.apply(
             fmt::format("dyn.arange({}, {}, {})", start, stop, w.integer(-2, 3, dtype)));
       },
       true},
      {"dyn.reshape", draw_reshape},
      {"dyn.broadcast_to",
       [](Writer& w) {
         const std::size_t rank = 1 + w.below(2);
         const std::string x = w.tensor(rank);
         return w.apply(
             fmt::format("dyn.broadcast_to({}, {})", x, w.integers(rank + w.below(2), 1, 3)));
       },
       true},
      {"dyn.expand_dims",
       [](Writer& w) {
         const std::string x = w.tensor(2);
         return w.apply(
             fmt::format("dyn.expand_dims({}, {})", x, w.integers(1 + w.below(2), -3, 3)));
       }},
      {"dyn.squeeze",
       [](Writer& w) {
         const std::string x = w.tensor(3);
         return w.apply(fmt::format("dyn.squeeze({}, {})", x, w.integers(1, -3, 2)));
       }},
      {"dyn.strided_slice", draw_slice},
      {"dyn.windows",
       [](Writer& w) {
         const std::size_t rank = 1 + w.below(2);
         const std::string x = w.tensor(rank);
         return w.apply(
             fmt::format("dyn.windows({}, {}) {{axes = (-1), strides = ({}), dilations = ({})}}", x,
                         w.integers(1, 1, 3), 1 + w.below(3), 1 + w.below(2)));
       },
       true},
      {"dyn.split",
       [](Writer& w) {
         const std::string x = w.tensor(1), sizes = w.integers(2, 0, 3), first = w.fresh(),
                           second = w.fresh();
         w.line(
             fmt::format("  {}, {} = dyn.split({}, {}) {{axis = 0}}\n", first, second, x, sizes));
         return w.chance(50) ? first : second;
       }},
      {"dyn.tile",
       [](Writer& w) {
         const std::size_t rank = 1 + w.below(2);
         const std::string x = w.tensor(rank);
         return w.apply(fmt::format("dyn.tile({}, {})", x, w.integers(rank, 0, 3)));
       },
       true},
      {"dyn.repeat",
       [](Writer& w) {
         const std::string x = w.tensor(2);
         return w.apply(
             fmt::format("dyn.repeat({}, {}) {{axis = {}}}", x, w.integer(0, 3), w.below(2)));
       },
       true},
      {"dyn.overwrite",
       [](Writer& w) {
         const std::string x = w.tensor(2), update = w.fresh();
         w.line(fmt::format("  {} = strided_slice({}) {{starts = (0), ends = (1), axes = (0)}}\n",
                            update, x));
         return w.apply(
             fmt::format("dyn.overwrite({}, {}, {}) {{axis = 0}}", x, update, w.integer(-2, 3)));
       }},
      {"dyn.pad", draw_pad, true},
      {"dyn.trilu",
       [](Writer& w) {
         const std::string x = w.tensor(2 + w.below(2), small_dtype(w));
         return w.apply(
             fmt::format("dyn.trilu({}, {}) {{upper = {}}}", x, w.integer(-4, 4), w.below(2)));
       }},
      {"gather",
       [](Writer& w) {
         const std::string x = w.tensor(2, small_dtype(w));
         return w.apply(fmt::format(
             "gather({}, {}) {{axis = {}}}", x,
             w.chance(60) ? w.indices(w.below(3), -2, 2) : w.integer(-2, 2, index_dtype(w)),
             w.below(2)));
       }},
      {"gather_elements",
       [](Writer& w) {
         const std::string x = w.tensor(1);
         return w.apply(fmt::format("gather_elements({}, {})", x, w.indices(1, -2, 2)));
       }},
      {"gather_nd",
       [](Writer& w) {
         const std::string x = w.tensor(2);
         return w.apply(
             fmt::format("gather_nd({}, {})", x,
                         w.indices(2, -1, 1, 1 + static_cast<std::int64_t>(w.below(2)))));
       }},
      {"scatter_elements", draw_scatter},
      {"scatter_nd", draw_scatter_nd},
      {"one_hot",
       [](Writer& w) {
         return w.apply(fmt::format(
             "one_hot({}, constant(f32 () [0]), constant(f32 () [1])) {{depth = {}}}",
             w.integers(std::optional<std::size_t>(3), -3, 3, index_dtype(w)), w.below(4)));
       }},
      {"dyn.one_hot",
       [](Writer& w) {
         const std::string at = w.integers(std::optional<std::size_t>(3), -3, 3, index_dtype(w));
         return w.apply(
             fmt::format("dyn.one_hot({}, constant(f32 () [0]), constant(f32 () [1]), {})", at,
                         w.integer(0, 4)));
       },
       true},
      {"dyn.resize", draw_resize, true},
      {"dyn.reduce_sum", [](Writer& w) { return draw_reduce(w, "dyn.reduce_sum"); }},
      {"dyn.reduce_mean", [](Writer& w) { return draw_reduce(w, "dyn.reduce_mean"); }},
      {"dyn.reduce_max", [](Writer& w) { return draw_reduce(w, "dyn.reduce_max"); }},
      {"dyn.reduce_min", [](Writer& w) { return draw_reduce(w, "dyn.reduce_min"); }},
      {"dyn.reduce_prod", [](Writer& w) { return draw_reduce(w, "dyn.reduce_prod"); }},
      {"dyn.cumulative_sum",
       [](Writer& w) {
         const std::string x = w.tensor(2);
         return w.apply(fmt::format("dyn.cumulative_sum({}, {}) {{exclusive = {}, reverse = {}}}",
                                    x, w.integer(-2, 1), w.below(2), w.below(2)));
       }},
      {"dyn.top_k",
       [](Writer& w) {
         const std::string x = w.tensor(2), k = w.integer(0, 3), values = w.fresh(),
                           places = w.fresh();
         w.line(fmt::format("  {}, {} = dyn.top_k({}, {}) {{axis = {}}}\n", values, places, x, k,
                            w.below(2)));
         return w.chance(50) ? values : places;
       }},
      {"argsort",
       [](Writer& w) {
         return w.apply(fmt::format("argsort({}, {})", w.tensor(2), w.integer(0, 3)));
       }},
      {"loop", draw_loop},
      {"list_at", [](Writer& w) { return draw_list(w, 0); }},
      {"list_insert", [](Writer& w) { return draw_list(w, 1); }},
      {"list_erase", [](Writer& w) { return draw_list(w, 2); }},
      {"segment_sum",
       [](Writer& w) {
         const std::string x = w.tensor(2);
         return w.apply(fmt::format("segment_sum({}, {})", x, w.integers(1 + w.below(3), 0, 3)));
       }},
      {"div", [](Writer& w) { return draw_arithmetic(w, "div"); }},
      {"mod", [](Writer& w) { return draw_arithmetic(w, "mod"); }},
      {"shift_left", [](Writer& w) { return draw_arithmetic(w, "shift_left"); }},
      {"shift_right", [](Writer& w) { return draw_arithmetic(w, "shift_right"); }},
      {"mul", [](Writer& w) { return draw_arithmetic(w, "mul"); }},
      {"less", [](Writer& w) { return draw_arithmetic(w, "less"); }},
      {"cast", draw_cast},
  };
  return list;
}

// Something before or after, so that the op stands in kernels of several kinds.
std::string follow(Writer& w, const std::string& value) {
  switch (w.below(6)) {
    case 0: return w.apply(fmt::format("reshape({}) {{shape = (-1)}}", value));
    case 1: return w.apply(fmt::format("add({}, {})", value, value));
    case 2:
      return w.apply(
          fmt::format("softmax(cast(reshape({}) {{shape = (-1)}}) {{to = f32}})", value));
    case 3: return w.apply(fmt::format("reduce_max(cast({}) {{to = f32}})", value));
    case 4: return w.apply(fmt::format("shape_of({})", value));
    default: return value;
  }
}

}  // namespace

std::vector<std::string> extreme_ops() {
  std::vector<std::string> names;
  for (const Drawn& each : drawn()) names.emplace_back(each.op);
  return names;
}

RandomGraph extreme_graph(std::uint64_t seed) {
  Writer writer(seed);
  const std::string value = drawn()[seed % drawn().size()].draw(writer);
  std::vector<std::string> results{follow(writer, value)};
  // What no result reads is neither computed nor checked, and a shape reads no elements. What a
  // kernel computes on its way and never stores may be as large as it likes, and take as long:
  // nothing is drawn to wait for.
  const bool whole = writer.is_shape(results[0]) || drawn()[seed % drawn().size()].grows;
  if ((whole || writer.chance(30)) && results[0] != value) results.push_back(value);
  return writer.finish(results);
}

}  // namespace anydim::tests
