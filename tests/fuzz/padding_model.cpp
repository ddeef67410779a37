#include "tests/fuzz/padding_model.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "ir/type.h"
#include "tests/fuzz/padding_mask.h"

namespace anydim::tests {

using namespace ir;

namespace {

class Writer : MaskWriter {
 public:
  explicit Writer(std::uint64_t seed) : MaskWriter(seed) {}

  PaddingModel run() {
    choose_mask();
    text_ += "  %one = constant(f32 () [1])\n  %zero = constant(f32 () [0])\n";
    fill_ = pick({"-inf", "-3.4028234663852886e38", "-3.4028234663852886e38", "-1e38", "-1e37",
                  "-1e33", "-1e31", "-1e30", "-1e9", "-10000", "-500"});
    line("low", "constant(f32 () [" + fill_ + "])");
    positions();
    if (chance(0.15)) line("m4", looked_up_mask());
    else expand("m4", "(1, 2)");
    expand("r4", "(1, 3)");
    line("bias", between(mask_bias()));
    rows();
    // Each kernel may round f16 and bf16 at other places: one reads the mask.
    const int layers = chance(0.4) && !model_.narrow ? 2 : 1;
    for (int i = 0; i < layers; ++i) layer(i);
    results();
    const std::string inputs =
        fmt::format("%ids: Tensor[(b, s), i64]{}{}",
                    masked_by_ids_ ? "" : ", %m: Tensor[(b, s), " + mask_type_ + "]",
                    model_.real_rows ? ", %rows: Tensor[(b, s, 8), f32]" : "");
    model_.text =
        fmt::format("fn @main({}) where b in [0, 64], s in [0, 32] {{\n{}  return {}\n}}\n", inputs,
                    text_, returned_);
    model_.mask = masked_by_ids_ ? 0 : 1;
    model_.mask_dtype = *dtype_named(mask_type_);
    return model_;
  }

 private:
  void rows() {
    line("table", "constant(f32 (50, 8) @random(1))");
    line("places", "constant(f32 (32, 8) @random(2))");
    line("e", "gather(%table, %ids) {axis = 0}");
    if (chance(0.12)) {  // positions that are counted from ids
      const std::string tokens = cast(
          op("not", op("equal", "ids", number("i64", pick({"0", "7"})))), pick({"i64", "i32"}));
      const std::string counted =
          fresh(fmt::format("cumulative_sum(%{}) {{axis = 1, exclusive = {}, reverse = {}}}",
                            tokens, chance(0.7) ? 0 : 1, chance(0.9) ? 0 : 1));
      line("p", fmt::format("gather(%places, %{}) {{axis = 0}}",
                            chance(0.5) ? counted : op("mul", counted, tokens)));
    } else {
      text_ +=
          "  %from = constant(i64 (1) [0])\n  %to = shape(s)\n  %p = dyn.strided_slice(%places, "
          "%from, %to)\n";
    }
    line("x0", "add(%e, %p)");
    model_.real_rows = chance(0.15);
    if (model_.real_rows) line("x1", "add(%x0, %rows)");
    top_ = model_.real_rows ? "x1" : "x0";
  }

  std::string weight(int seed, const std::string& scale) {
    const std::string plain = fresh(fmt::format("constant(f32 (8, 8) @random({}))", seed));
    return scale == "1" ? plain : op("mul", plain, number("f32", scale));
  }

  std::string heads(const std::string& value, const std::string& perm) {
    const std::string shape = fresh("shape(b, s, 2, 4)"),
                      split = fresh(fmt::format("dyn.reshape(%{}, %{})", value, shape));
    return fresh(fmt::format("transpose(%{}) {{perm = {}}}", split, perm));
  }

  // (b, 2, 4, s), in the ways that exporters write it.
  std::string turned_keys(const std::string& keys) {
    if (chance(0.5)) return heads(keys, "(0, 2, 3, 1)");
    std::string split = heads(keys, "(0, 2, 1, 3)");
    const auto reshape = [&](const std::string& value, const std::string& dims) {
      return fresh(fmt::format("dyn.reshape(%{}, %{})", value, fresh("shape(" + dims + ")")));
    };
    if (chance(0.4)) {  // one head's keys for both
      const std::string first =
          fresh(fmt::format("strided_slice(%{}) {{starts = (0), ends = (1), axes = (1)}}", split));
      const std::string wide =
          fresh(fmt::format("dyn.broadcast_to(%{}, %{})",
                            fresh(fmt::format("expand_dims(%{}) {{axes = (2)}}", first)),
                            fresh("shape(b, 1, 2, s, 4)")));
      split = reshape(wide, "b, 2, s, 4");
    }
    const std::string turned =
        fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1)}}", reshape(split, "2*b, s, 4")));
    return reshape(turned, "b, 2, 4, s");
  }

  // A number for each distance and head, which a formula of positions chooses.
  std::string relative_table() {
    const std::string distance = op("sub", "j", "i"), far = op("abs", distance),
                      two = number("i64", "2");
    const std::string logarithm = op("log", op("div", cast(far, "f32"), number("f32", "2")));
    const std::string bucket =
        op("min", op("add", cast(logarithm, "i64"), two), number("i64", "3"));
    const std::string chosen = where(op("less", far, two), far, bucket);
    const std::string side =
        op("mul", cast(op("greater", distance, "begin"), "i64"), number("i64", "4"));
    const std::string found =
        fresh(fmt::format("gather(%{}, %{}) {{axis = 0}}",
                          fresh("constant(f32 (8, 2) @random(41))"), op("add", side, chosen)));
    return fresh("expand_dims(%" + fresh("transpose(%" + found + ") {perm = (2, 0, 1)}") +
                 ") {axes = (0)}");
  }

  void layer(int index) {
    const std::string gain = fresh(fmt::format("constant(f32 (8) @random({}))", 6 + index));
    const std::string epsilon =
        chance(0.8) ? "1e-5" : pick({"0", "-0.05", "-0.3", "-1e-3", "-1e-4", "1e-12"});
    if (epsilon[0] == '0' || epsilon[0] == '-') model_.brittle = true;
    if (chance(0.08)) top_ = mixed_rows(top_);
    const std::string normed =
        chance(0.8) ? fresh(fmt::format("layer_norm(%{}, %{}) {{axis = -1, epsilon = {}}}", top_,
                                        gain, epsilon))
                    : op("mul", root_mean_square(epsilon), gain);
    const std::string keys =
        chance(0.8)   ? normed
        : chance(0.5) ? top_
                      : op(pick({"tanh", "sigmoid", "exp", "gelu", "abs", "reciprocal"}), top_);
    const std::string scale = chance(0.7) ? "1" : pick({"30", "1e4", "1e16", "1e32"});
    if (scale == "1e16" || scale == "1e32") model_.brittle = true;
    // Scores magnify what rounding changes: their integers are made of rows as inputs give them.
    const bool exact = index == 0 && (top_ == "x0" || top_ == "x1");
    const auto product = [&](const std::string& rows, int seed, const std::string& by, bool eight) {
      return eight ? op("mul", eight_bit_product(rows, seed), number("f32", by))
                   : op("matmul", rows, weight(seed, by));
    };
    const std::string key_scale = chance(0.5) || scale == "1e32" ? "1" : scale;
    const bool eight_q = exact && chance(0.06), eight_k = exact && chance(0.12),
               eight_v = chance(0.1);
    const std::string q0 = product(eight_q ? top_ : normed, 3 + 10 * index, scale, eight_q),
                      k0 = product(eight_k ? top_ : keys, 4 + 10 * index, key_scale, eight_k),
                      v0 = product(eight_v && exact ? top_ : normed, 5 + 10 * index, "1", eight_v);
    model_.rounds = model_.rounds || (eight_v && !exact);
    const std::string q = heads(q0, "(0, 2, 1, 3)"), v = heads(v0, "(0, 2, 1, 3)");
    std::string mixed, bias = "bias";
    if (index > 0 && chance(0.2)) {  // another mask than the first layer's
      model_.what += " + other";
      bias = chance(0.3)   ? op("neg", "bias")
             : chance(0.5) ? op("mul", "bias", number("f32", pick({"0.1", "0", "1e-4"})))
                           : where(hidden_bool("m4"), "zero", "low");
    }
    if (chance(0.5)) {
      mixed = fresh(fmt::format("attention(%{}, %{}, %{}, %{}) {{scale = 0.5{}}}", q,
                                heads(k0, "(0, 2, 1, 3)"), v, bias,
                                chance(0.8) ? "" : ", softcap = 2"));
    } else if (chance(0.3)) {
      const std::string scores =
          op("mul", op("matmul", q, heads(k0, "(0, 2, 3, 1)")), number("f32", "0.5"));
      const std::string border = number("f32", pick({"-100", "0", "-1e30"}));
      const std::string chosen = chance(0.5) ? where(op("less", bias, border), "low", scores)
                                             : where(op("less", border, bias), scores, "low");
      mixed = op("matmul", fresh(fmt::format("softmax(%{}) {{axis = -1}}", chosen)), v);
    } else {
      std::string scores = op("mul", op("matmul", q, turned_keys(k0)), number("f32", "0.5"));
      if (chance(0.2)) {
        const std::string cap = number("f32", "2");
        scores = op("mul", op("tanh", op("div", scores, cap)), cap);
      }
      if (chance(0.2)) scores = op("add", scores, relative_table());
      const bool selects = model_.what == "selected" && chance(0.5);
      const std::string biased =
          selects ? where(hidden_bool("m4"), "low", scores) : op("add", scores, bias);
      std::string weights = fresh(fmt::format("softmax(%{}) {{axis = -1}}", biased));
      if (chance(0.4)) weights = where(op("is_nan", weights), "zero", weights);
      mixed = op("matmul", weights, v);
    }
    const std::string together =
                          fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1, 3)}}", mixed)),
                      shape = fresh("shape(b, s, 8)");
    std::string out = fresh(fmt::format("dyn.reshape(%{}, %{})", together, shape));
    out = op("add", out, top_);
    if (chance(0.3)) {  // by way of rows of all sequences
      const std::string merged = fresh("shape(b*s, 8)"),
                        flat = fresh(fmt::format("dyn.reshape(%{}, %{})", out, merged));
      const bool eight = chance(0.2);
      model_.rounds = model_.rounds || eight;
      out = fresh(fmt::format("dyn.reshape(%{}, %{})",
                              op("tanh", product(flat, 8 + 10 * index, "1", eight)),
                              fresh("shape(b, s, 8)")));
    }
    top_ = laid_out(out);
  }

  // Rows times a weight as 8-bit integers, by a scale of the model's or of the range of all rows,
  // or nearly.
  std::string eight_bit_product(const std::string& rows, int seed) {
    if (!model_.eight_bits) model_.what += " + 8 bits";
    model_.eight_bits = true;
    const int wrong = chance(0.8) ? 0 : 1 + static_cast<int>(random_() % 6);
    const std::string none = number("f32", "0"), most = number("f32", "255");
    std::string scale = number("f32", pick({"0.02", "0.05", "0.001"})),
                zero = number("u8", pick({"0", "120", "255"})), top = scale;
    if (chance(0.75)) {
      const std::string of = wrong == 1   ? op("abs", rows)
                             : wrong == 2 ? op("tanh", rows)
                                          : rows,
                        over = wrong == 3 ? "{axes = (-1), keepdims = 1}" : "{keepdims = 0}";
      const auto extreme = [&](const char* name) {
        return fresh(fmt::format("{}(%{}) {}", name, of, over));
      };
      top = op("max", extreme("reduce_max"), none);
      const std::string bottom = op("min", extreme("reduce_min"), none);
      scale = op("div", op("sub", top, bottom), most);
      const std::string place = op("div", op("neg", bottom), scale);
      zero = cast(op("round", op("min", op("max", place, none), most)), "u8");
    }
    const std::string whole = op(wrong == 4 ? "floor" : "round", op("div", rows, scale)),
                      bytes = cast(op("add", whole, cast(zero, "f32")), "u8"),
                      centred = op("sub", cast(bytes, "i32"), cast(zero, "i32")),
                      weights =
                          cast(fresh(fmt::format("constant(i8 (8, 8) @random({}))", seed)), "i32"),
                      sums = cast(op("matmul", centred, weights), "f32"),
                      made = op("mul", sums, op("mul", scale, number("f32", "0.01")));
    if (wrong == 5) return op("add", made, top);
    return wrong == 6 ? op("mul", made, op("div", rows, scale)) : made;
  }

  // x / sqrt(mean(x^2) + epsilon), or nearly.
  std::string root_mean_square(const std::string& epsilon) {
    const std::string squared =
        chance(0.9) ? op("mul", top_, top_) : op("mul", top_, op("abs", top_));
    const std::string mean = fresh(fmt::format("reduce_mean(%{}) {{axes = ({}), keepdims = 1}}",
                                               squared, chance(0.95) ? "-1" : "1"));
    const std::string root = op("sqrt", op("add", mean, number("f32", epsilon)));
    return chance(0.5) ? op("div", top_, root) : op("mul", top_, op("reciprocal", root));
  }

  // What hidden rows reach others by.
  std::string mixed_rows(const std::string& rows) {
    model_.what += " + mixed";
    switch (random_() % 8) {
      case 0:
        return op("add", rows,
                  fresh(fmt::format("reduce_mean(%{}) {{axes = (1), keepdims = 1}}", rows)));
      case 1: return fresh(fmt::format("cumulative_sum(%{}) {{axis = 1}}", rows));
      case 2: return op("mul", rows, fresh(fmt::format("softmax(%{}) {{axis = 1}}", rows)));
      case 3:
        return op("sub", rows,
                  fresh(fmt::format("reduce_max(%{}) {{axes = (1), keepdims = 1}}", rows)));
      case 4:
        return fresh(
            fmt::format("strided_slice(%{}) {{starts = (-1), ends = (-9223372036854775807), axes = "
                        "(1), steps = (-1)}}",
                        rows));
      case 5: {
        const std::string joined =
            fresh(fmt::format("dyn.reshape(%{}, %{})", rows, fresh("shape(b, 8, s)")));
        return fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1)}}", joined));
      }
      case 6: return fresh(fmt::format("layer_norm(%{}, %one) {{axis = 1, epsilon = 1e-5}}", rows));
      default:
        return op("add", rows,
                  fresh(fmt::format("reduce_sum(%{}) {{axes = (0, 1), keepdims = 1}}", rows)));
    }
  }

  // Rows by way of other layouts.
  std::string laid_out(const std::string& rows) {
    const auto reshape = [&](const std::string& value, const std::string& dims) {
      return fresh(fmt::format("dyn.reshape(%{}, %{})", value, fresh("shape(" + dims + ")")));
    };
    switch (random_() % 10) {
      case 0: return reshape(op("abs", reshape(rows, "b, 1, s, 2, 4")), "b, s, 8");
      case 1: return reshape(reshape(rows, "b, s*8"), "b, s, 8");
      case 2: {
        const std::string turned =
            op("tanh", fresh(fmt::format("transpose(%{}) {{perm = (1, 0, 2)}}", rows)));
        return fresh(fmt::format("transpose(%{}) {{perm = (1, 0, 2)}}", turned));
      }
      case 3:
        return op("add", rows,
                  fresh(fmt::format("reduce_mean(%{}) {{axes = (2), keepdims = 1}}", rows)));
      default: return rows;
    }
  }

  // ---- Results ----

  void results() {
    line("h", "add(%" + top_ + ", %zero)");
    std::vector<std::string> names;
    if (chance(0.8)) names.push_back("%h");
    const int pooling = static_cast<int>(random_() % 15);
    const std::string entries =
        fresh(fmt::format("expand_dims(%{}) {{axes = (-1)}}", masked_by_ids_ ? "ids" : "m"));
    const auto sum = [&](const std::string& value) {
      return fresh(fmt::format("reduce_sum(%{}) {{axes = (1)}}", value));
    };
    const auto shown = [&] { return where(hidden_bool(entries), "zero", "one"); };
    if (pooling <= 2) {
      const std::string w = shown(),
                        count = op("max", sum(w), number("f32", pooling == 0 ? "1e-9" : "0"));
      line("pooled", fmt::format("div(%{}, %{})", sum(op("mul", "h", w)), count));
    } else if (pooling == 3) {
      line("pooled",
           fmt::format("reduce_sum(%{}) {{axes = (1)}}", where(hidden_bool(entries), "zero", "h")));
    } else if (pooling == 4) {  // weights that a wrong arithmetic takes for 0 at hidden rows
      const std::string type = model_.narrow || converts_
                                   ? pick({"f32", "i32", "u8"})
                                   : pick({"f32", "f16", "i32", "u8", "bf16"}),
                        much = number(type, type == "f16"    ? "2048"
                                            : type == "bf16" ? "256"
                                            : type == "u8"   ? "255"
                                            : type == "i32"  ? "2147483647"
                                                             : "1e8");
      if (type == "f16" || type == "bf16") model_.narrow = true;
      const std::string w = op("add", cast(entries, type), much),
                        taken = cast(op(pick({"greater", "less"}), w, much), "f32");
      line("pooled", fmt::format("reduce_sum(%{}) {{axes = (1)}}", op("mul", "h", taken)));
    } else if (pooling == 5) {
      const std::string first = fresh("strided_slice(%h) {starts = (0), ends = (1), axes = (1)}");
      line("pooled", fmt::format("squeeze(%{}) {{axes = (1)}}", first));
    } else if (pooling == 6) {
      line("pooled", "dyn.reshape(%h, %" + fresh("shape(b*s, 8)") + ")");
    } else if (pooling == 9) {  // largest of what takes part
      line("pooled", fmt::format("reduce_max(%{}) {{axes = (1)}}",
                                 where(hidden_bool(entries), pick({"low", "zero"}), "h")));
    } else if (pooling == 10) {  // weights times rows, as a product
      const std::string w = fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1)}}", shown()));
      line("pooled", fmt::format("squeeze(%{}) {{axes = (1)}}", op("matmul", w, "h")));
    } else if (pooling == 11) {  // over all there is
      const std::string kind = pick({"reduce_mean", "reduce_sum"});
      const bool all = chance(0.3);
      model_.reads_length = all || kind == "reduce_mean";
      const std::string value = chance(0.5) ? op("mul", "h", shown()) : "h";
      line("pooled", fmt::format("{}(%{}) {{axes = ({})}}", kind, value, all ? "0, 1" : "1"));
    } else if (pooling == 12) {  // weights that are nearly 0 where hidden
      const std::string w = op(pick({"mul", "max", "add", "pow"}), shown(),
                               number("f32", pick({"1e-30", "0", "1", "2"})));
      line("pooled", sum(op("mul", "h", w)).insert(0, "add(%") + ", %zero)");
    } else if (pooling >= 13) {  // the last row that takes part, or the one of the largest id
      const std::string hidden = hidden_bool(entries),
                        ids = fresh("expand_dims(%ids) {axes = (-1)}"), none = number("i64", "-1"),
                        last = op("add", sum(where(hidden, number("i64", "0"), number("i64", "1"))),
                                  none),
                        largest = fresh(fmt::format("arg_max(%{}) {{axis = 1, keepdims = 0}}",
                                                    where(hidden, none, cast(ids, "i64"))));
      line("pooled",
           fmt::format("gather_nd(%h, %{}) {{batch_dims = 1}}", pooling == 13 ? last : largest));
    } else if (pooling == 7 && chance(0.5)) {
      line("pooled", "reduce_max(%h) {axes = (1)}");
    } else {
      line("pooled", "tanh(%h)");
    }
    if (names.empty() || chance(0.8)) names.emplace_back("%pooled");
    returned_ = fmt::format("{}", names.size() == 2 ? names[0] + ", " + names[1] : names[0]);
  }
};

}  // namespace

PaddingModel padding_model(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace anydim::tests
