#include "tests/fuzz/padding_model.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "ir/type.h"

namespace anydim::tests {

using namespace ir;

namespace {

const std::vector<std::string> integers{"i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"};
const std::vector<std::string> floats{"f32", "f64", "f16", "bf16"};

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed * 2654435761u + 17) {}

  PaddingModel run() {
    choose_mask();
    text_ += "  %one = constant(f32 () [1])\n  %zero = constant(f32 () [0])\n";
    fill_ = pick({"-inf", "-3.4028234663852886e38", "-3.4028234663852886e38", "-1e38", "-1e37", "-1e33", "-1e31", "-1e30", "-1e9", "-10000",
                  "-500"});
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
        fmt::format("%ids: Tensor[(b, s), i64]{}{}", masked_by_ids_ ? "" : ", %m: Tensor[(b, s), " + mask_type_ + "]",
                    model_.real_rows ? ", %rows: Tensor[(b, s, 8), f32]" : "");
    model_.text = fmt::format("fn @main({}) where b in [0, 64], s in [0, 32] {{\n{}  return {}\n}}\n", inputs, text_, returned_);
    model_.mask = masked_by_ids_ ? 0 : 1;
    model_.mask_dtype = *dtype_named(mask_type_);
    return model_;
  }

 private:
  template <typename T>
  T pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }
  std::string pick(std::initializer_list<const char*> from) {
    return *(from.begin() + static_cast<std::ptrdiff_t>(random_() % from.size()));
  }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  std::string line(const std::string& name, const std::string& value) {
    text_ += fmt::format("  %{} = {}\n", name, value);
    return name;
  }
  std::string fresh(const std::string& value) { return line(fmt::format("t{}", count_++), value); }
  std::string number(const std::string& type, const std::string& value) { return fresh(fmt::format("constant({} () [{}])", type, value)); }
  std::string op(const std::string& name, const std::string& a) { return fresh(fmt::format("{}(%{})", name, a)); }
  std::string op(const std::string& name, const std::string& a, const std::string& b) {
    return fresh(fmt::format("{}(%{}, %{})", name, a, b));
  }
  std::string where(const std::string& c, const std::string& a, const std::string& b) {
    return fresh(fmt::format("where(%{}, %{}, %{})", c, a, b));
  }
  std::string cast(const std::string& a, const std::string& to) { return fresh(fmt::format("cast(%{}) {{to = {}}}", a, to)); }
  void expand(const std::string& name, const std::string& axes) {
    line(name, fmt::format("expand_dims(%{}) {{axes = {}}}", masked_by_ids_ ? "ids" : "m", axes));
  }

  void choose_mask() {
    masked_by_ids_ = chance(0.12);
    mask_type_ = masked_by_ids_ || chance(0.35) ? "i64" : chance(0.15) ? "bool" : chance(0.6) ? pick(integers) : pick(floats);
    inverted_ = !masked_by_ids_ && chance(0.2);
  }

  void positions() {
    text_ +=
        "  %ns = dim(s)\n  %begin = constant(i64 () [0])\n  %step = constant(i64 () [1])\n  %range = dyn.arange(%begin, %ns, %step)\n"
        "  %i = expand_dims(%range) {axes = (1)}\n  %j = expand_dims(%range) {axes = (0)}\n";
  }

  // ---- The mask ----

  // (b, 1, 1, s), read through indices of every entry, as torch's dynamo writes a mask; sometimes at other keys.
  std::string looked_up_mask() {
    const auto spread = [&](const std::string& index, const std::string& axes) {
      const std::string wide = fresh(fmt::format(
          "dyn.broadcast_to(%{}, %{})", fresh(fmt::format("expand_dims(%{}) {{axes = {}}}", index, axes)), fresh("shape(b, 1, 1, s)")));
      return fresh(fmt::format("expand_dims(%{}) {{axes = (-1)}}", wide));
    };
    std::string key = "range";
    if (chance(0.3)) key = op("sub", op("sub", "ns", "step"), "range");
    else if (chance(0.2)) key = op("min", "range", number("i64", "3"));
    const std::string sequences = fresh("dyn.arange(%begin, %" + fresh("dim(b)") + ", %step)");
    const std::string places =
        fresh(fmt::format("concat(%{}, %{}) {{axis = -1}}", spread(sequences, "(1, 2, 3)"), spread(key, "(0, 1, 2)")));
    return fmt::format("gather_nd(%{}, %{}) {{batch_dims = 0}}", masked_by_ids_ ? "ids" : "m", places);
  }

  void meant() {
    model_.kept_entry = inverted_ ? 0 : 1;
    model_.hidden_entry = 1 - *model_.kept_entry;
  }

  // 1 in f32 where the key is hidden, as exporters write it; `entries` is m4 or what stands for it.
  std::string hidden_real(const std::string& entries) {
    const std::string real = cast(entries, "f32");
    return inverted_ ? real : op("sub", "one", real);
  }
  std::string hidden_bool(const std::string& entries) {
    if (!masked_by_ids_ && chance(0.4) && mask_type_ != "bool") return op("equal", entries, number(mask_type_, inverted_ ? "1" : "0"));
    const std::string truth = mask_type_ == "bool" ? entries : cast(entries, "bool");
    return inverted_ ? truth : op("not", truth);
  }

  std::string mask_bias() {
    if (masked_by_ids_) {
      model_.what = "ids";
      model_.kept_entry = 1;
      model_.hidden_entry = 0;
      return where(chance(0.3) ? op("equal", "m4", number("i64", "0")) : hidden_bool("m4"), "low", "zero");
    }
    switch (random_() % 11) {
      case 10: return counted();
      case 8:
      case 9: return misuse();
      case 0:
        model_.what = "additive";
        meant();
        return op("mul", hidden_real("m4"), "low");
      case 1:
        model_.what = "selected";
        meant();
        return where(hidden_bool("m4"), "low", "zero");
      case 2: {
        model_.what = "pairs";
        meant();
        const std::string both =
            inverted_ ? op("max", cast("r4", "f32"), cast("m4", "f32")) : op("sub", "one", op("mul", cast("r4", "f32"), cast("m4", "f32")));
        return chance(0.5) ? op("mul", both, "low") : where(cast(both, "bool"), "low", "zero");
      }
      case 3:
      case 4: return attack();
      default: return circuit();
    }
  }

  // Keys before the number of rows, as ONNX Runtime's optimizer has it, or nearly.
  std::string counted() {
    model_.what = "counted";
    if (!inverted_) meant();
    const std::string rows =
        fresh(fmt::format("reduce_sum(%{}) {{axes = (1), keepdims = 1}}", cast("m", pick({"i64", "i32", "i64", "u8"}))));
    const std::string wide = cast(fresh(fmt::format("expand_dims(%{}) {{axes = (1, 2)}}", rows)), "i64");
    const std::string key = chance(0.8) ? "j" : op(pick({"add", "sub"}), "j", "step");
    const std::string seen = chance(0.5) ? op("less", key, wide) : op(pick({"greater", "greater_equal"}), wide, key);
    return where(seen, inverted_ ? "low" : "zero", inverted_ ? "zero" : "low");
  }

  // What a wrong arithmetic takes for a mask.
  std::string attack() {
    const std::string m = chance(0.8) ? "m4" : "r4", wide = cast(m, "i64"), off = op("sub", wide, number("i64", "1"));  // -1 at 0, 0 at 1
    const std::string large = number("f32", pick({"1e31", "1e38", "3e38"}));
    const std::string hidden = op("sub", number("i64", "1"), wide);
    const int kind = static_cast<int>(random_() % 9);
    model_.what = fmt::format("attack {}", kind);
    switch (kind) {
      case 0: return op("mul", cast(cast(off, pick(integers)), "f32"), large);
      case 1: {
        const std::string type = pick({"i32", "u32", "u8", "i16", "u64"}), half = number(type, type == "u8"    ? "16"
                                                                                               : type == "i16" ? "256"
                                                                                               : type == "u64" ? "4294967296"
                                                                                                               : "65536");
        return op("mul", cast(op("mul", op("mul", cast(hidden, type), half), half), "f32"), "low");
      }
      case 2: {
        const std::string type = pick({"u8", "u16", "u32"});
        return op("mul", cast(op("shift_left", cast(hidden, type), number(type, pick({"7", "8", "16", "31"}))), "f32"), "low");
      }
      case 3: {
        const std::string tiny = op("mul", cast(hidden, "f32"), number("f32", pick({"1e-9", "1e-8", "6e-8", "1e-5"})));
        const std::string half = cast(tiny, pick({"f16", "bf16"}));
        return where(op("greater", cast(half, "f32"), "zero"), "low", "zero");
      }
      case 4: {
        const std::string type = pick({"f32", "f16", "bf16"}), much = number(type, type == "f16" ? "2048" : type == "bf16" ? "256" : "1e8");
        if (type != "f32") model_.narrow = true;
        return where(op("greater", op("add", cast(hidden, type), much), much), "low", "zero");
      }
      case 5: {
        const std::string narrow =
            cast(op("add", op("mul", hidden, number("i64", pick({"128", "200", "256", "32768"}))), number("i64", "0")),
                 pick({"i8", "u8", "i16"}));
        return where(op("greater", cast(narrow, "i64"), number("i64", "0")), "low", "zero");
      }
      case 6: return op("mul", cast(op("bit_not", cast(m, pick({"u8", "i8", "u16"}))), "f32"), chance(0.5) ? "low" : number("f32", "1e31"));
      case 7: {  // positions that wrap
        const std::string type = pick({"i32", "i64"}), far = number(type, type == "i32" ? "1073741824" : "2305843009213693952");
        const std::string place = op("mul", cast(chance(0.5) ? "j" : "i", type), far);
        return where(op("and", hidden_bool("m4"), op("greater_equal", place, number(type, "0"))), "low", "zero");
      }
      default: {  // sizes that wrap: arithmetic on sizes in i64 counts as exact (ir/shape_rules.h), for packed and padded calls alike
        model_.wraps_sizes = true;
        const std::string size = op("mul", op("mul", "ns", number("i64", "2305843009213693952")), number("i64", pick({"2", "4", "8"})));
        return where(op("and", hidden_bool("m4"), op("greater_equal", size, number("i64", "0"))), "low", "zero");
      }
    }
  }

  // Masks that are nearly one: read at other keys, lifted somewhere, of fills that do not hide, or hide everything.
  std::string misuse() {
    const int kind = static_cast<int>(random_() % 12);
    model_.what = fmt::format("misuse {}", kind);
    const std::string hidden = hidden_bool("m4"), plain = where(hidden, "low", "zero"), real = cast("m4", "f32");
    const auto slice = [&](const std::string& what) { return fresh(fmt::format("strided_slice(%m4) {{{}}}", what)); };
    switch (kind) {
      case 0:
        return op("mul",
                  cast(op("sub", number("i64", "1"),
                          cast(slice("starts = (-1), ends = (-9223372036854775807), axes = (3), steps = (-1)"), "i64")),
                       "f32"),
                  "low");
      case 1: return where(op("and", hidden, op("greater", "j", number("i64", "0"))), "low", "zero");
      case 2: {  // batch and sequence exchanged
        const std::string turned = fresh("transpose(%" + fresh("dyn.reshape(%m, %" + fresh("shape(s, b)") + ")") + ") {perm = (1, 0)}");
        return where(cast(op("sub", cast(fresh("expand_dims(%" + turned + ") {axes = (1, 2)}"), "f32"), "one"), "bool"), "low", "zero");
      }
      case 3: {  // fills of other dtypes
        const std::string type = pick({"f16", "bf16", "f64"}), fill = type == "f16"    ? "-65504"
                                                                      : type == "bf16" ? "-3e38"
                                                                                       : pick({"-1e308", "-1e39", "-1e4"});
        if (type != "f64") model_.narrow = true;
        return cast(op("mul", cast(hidden, type), number(type, fill)), "f32");
      }
      case 4: return chance(0.5) ? op("add", plain, plain) : op("mul", plain, number("f32", pick({"2", "0.5", "1e-3", "-1", "1e-38"})));
      case 5: return op("mul", plain, cast(chance(0.5) ? "j" : "i", "f32"));
      case 6: return op(pick({"max", "min"}), plain, number("f32", pick({"-20", "-1e9", "-3e38", "0"})));
      case 7: return op("log", chance(0.5) ? real : op("add", real, number("f32", pick({"1e-9", "1e-38", "1e-45"}))));
      case 8: return op("div", op("sub", real, "one"), chance(0.5) ? real : op("add", real, number("f32", "1e-20")));
      case 9:
        return op("sub", "zero",
                  op("mul", op("exp", op("mul", cast(hidden, "f32"), number("f32", pick({"5", "20", "88", "89"})))),
                     number("f32", pick({"1", "100"}))));
      case 10: return where(op(pick({"or", "xor"}), hidden, op("equal", "i", "j")), "low", "zero");
      default: {  // the entry that ids of the key choose
        const std::string picked = fresh("gather(%" + fresh("dyn.reshape(%m, %" + fresh("shape(b*s)") + ")") + ", %" +
                                         op("mod", "ids", op("add", "ns", number("i64", "1"))) + ") {axis = 0}");
        return where(cast(op("sub", cast(fresh("expand_dims(%" + picked + ") {axes = (1, 2)}"), "f32"), "one"), "bool"), "low", "zero");
      }
    }
  }

  std::string small(const std::string& type) {
    const bool is_unsigned = type[0] == 'u';
    if (type == "bool") return number("bool", pick({"true", "false"}));
    if (type[0] == 'f' || type[0] == 'b') return number(type, pick({"0", "1", "-1", "0.5", "2", "1e-3", "-3", "100"}));
    return number(type, is_unsigned ? pick({"0", "1", "2", "3", "7", "100"}) : pick({"0", "1", "-1", "2", "-2", "3", "100", "-128"}));
  }

  // A few ops on entries, in any dtypes; what comes out is multiplied by the fill or selects it.
  std::string circuit() {
    model_.what = "circuit";
    std::string value = chance(0.85) ? "m4" : "r4", type = mask_type_;
    const int steps = 1 + static_cast<int>(random_() % 5);
    for (int i = 0; i < steps; ++i) {
      if (chance(0.35)) {
        type = chance(0.6) ? pick(integers) : chance(0.7) ? pick(floats) : "bool";
        value = cast(value, type);
        continue;
      }
      if (type == "bool") {
        if (chance(0.5)) value = op("not", value);
        else value = op(pick({"and", "or", "xor"}), value, chance(0.5) ? small("bool") : cast("m4", "bool"));
        continue;
      }
      const bool real = type[0] == 'f' || type[0] == 'b';
      if (type == "f16" || type == "bf16") model_.narrow = true;
      if (chance(0.25)) {
        value = op(pick({"equal", "less", "greater", "less_equal", "greater_equal"}), value, small(type));
        type = "bool";
      } else if (chance(0.2)) {
        value = real ? op(pick({"abs", "neg", "sqrt", "exp", "tanh", "relu", "floor", "log"}), value)
                     : op(type[0] == 'u' ? "bit_not" : pick({"abs", "neg", "bit_not"}), value);
      } else if (!real && chance(0.2)) {
        value = type[0] == 'u' ? op(pick({"shift_left", "shift_right", "bit_and", "bit_or"}), value, small(type))
                               : op(pick({"bit_and", "bit_or", "bit_xor"}), value, small(type));
      } else {
        value = chance(0.7) ? op(pick({"add", "sub", "mul", "min", "max"}), value, small(type)) : op("sub", small(type), value);
      }
    }
    if (type == "bool" && chance(0.7)) return chance(0.5) ? where(value, "low", "zero") : where(value, "zero", "low");
    const std::string real = type == "f32" ? value : cast(value, "f32");
    return op("mul", real, chance(0.8) ? "low" : number("f32", "1e31"));
  }

  // ---- Between rows ----

  std::string between(const std::string& mask) {
    if (chance(0.5)) return fmt::format("add(%{}, %zero)", mask);
    const std::string distance = op("sub", "j", "i"), real = cast(distance, "f32"), far = op("abs", real);
    const std::string slope = number("f32", pick({"-0.125", "-0.5", "-3", "0.25"}));
    std::string term;
    switch (random_() % 14) {
      case 12:
        term = op("mul", far, fresh("constant(f32 (1, 2, 1, 1) [-0.5, " + std::string(pick({"-0.25", "0.25", "-1e30", "nan"})) + "])"));
        break;
      case 13: {  // a table of distances, of each head
        const std::string three = number("i64", "3"), near = op("max", op("min", distance, three), op("neg", three));
        const std::string found =
            fresh(fmt::format("gather(%{}, %{}) {{axis = 0}}", fresh("constant(f32 (7, 2) @random(40))"), op("add", near, three)));
        term = fresh("expand_dims(%" + fresh("transpose(%" + found + ") {perm = (2, 0, 1)}") + ") {axes = (0)}");
        break;
      }
      case 0: term = where(op("less_equal", "j", "i"), "zero", "low"); break;
      case 1: term = where(op("less_equal", op("abs", distance), number("i64", "2")), "zero", "low"); break;
      case 2: term = op("mul", far, slope); break;
      case 3: term = op("exp", op("neg", far)); break;
      case 4: term = op("neg", op("log", op("add", far, "one"))); break;
      case 5: term = op("sin", real); break;
      case 6: term = op("div", slope, op("add", far, "one")); break;
      case 7: term = op("mul", fresh(fmt::format("pow(%{}, %{})", far, number("f32", pick({"2", "0.5"})))), slope); break;
      case 8: term = fresh(fmt::format("mod(%{}, %{})", real, number("f32", "3"))); break;
      case 9: term = op("mul", cast(op("sub", "ns", "j"), "f32"), slope); break;
      case 10: term = where(op("less", "j", "i"), number("f32", pick({"-3", "-inf", "5"})), "zero"); break;
      default: term = fresh("constant(f32 () [" + std::string(pick({"-3", "-5000", "7"})) + "])"); break;
    }
    model_.what += " + between";
    return fmt::format("add(%{}, %{})", mask, term);
  }

  // ---- Layers ----

  void rows() {
    line("table", "constant(f32 (50, 8) @random(1))");
    line("places", "constant(f32 (32, 8) @random(2))");
    line("e", "gather(%table, %ids) {axis = 0}");
    if (chance(0.12)) {  // positions that are counted from ids
      const std::string tokens = cast(op("not", op("equal", "ids", number("i64", pick({"0", "7"})))), pick({"i64", "i32"}));
      const std::string counted = fresh(
          fmt::format("cumulative_sum(%{}) {{axis = 1, exclusive = {}, reverse = {}}}", tokens, chance(0.7) ? 0 : 1, chance(0.9) ? 0 : 1));
      line("p", fmt::format("gather(%places, %{}) {{axis = 0}}", chance(0.5) ? counted : op("mul", counted, tokens)));
    } else {
      text_ += "  %from = constant(i64 (1) [0])\n  %to = shape(s)\n  %p = dyn.strided_slice(%places, %from, %to)\n";
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
    const std::string shape = fresh("shape(b, s, 2, 4)"), split = fresh(fmt::format("dyn.reshape(%{}, %{})", value, shape));
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
      const std::string first = fresh(fmt::format("strided_slice(%{}) {{starts = (0), ends = (1), axes = (1)}}", split));
      const std::string wide = fresh(fmt::format("dyn.broadcast_to(%{}, %{})", fresh(fmt::format("expand_dims(%{}) {{axes = (2)}}", first)),
                                                 fresh("shape(b, 1, 2, s, 4)")));
      split = reshape(wide, "b, 2, s, 4");
    }
    const std::string turned = fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1)}}", reshape(split, "2*b, s, 4")));
    return reshape(turned, "b, 2, 4, s");
  }

  // A number for each distance and head, which a formula of positions chooses.
  std::string relative_table() {
    const std::string distance = op("sub", "j", "i"), far = op("abs", distance), two = number("i64", "2");
    const std::string logarithm = op("log", op("div", cast(far, "f32"), number("f32", "2")));
    const std::string bucket = op("min", op("add", cast(logarithm, "i64"), two), number("i64", "3"));
    const std::string chosen = where(op("less", far, two), far, bucket);
    const std::string side = op("mul", cast(op("greater", distance, "begin"), "i64"), number("i64", "4"));
    const std::string found =
        fresh(fmt::format("gather(%{}, %{}) {{axis = 0}}", fresh("constant(f32 (8, 2) @random(41))"), op("add", side, chosen)));
    return fresh("expand_dims(%" + fresh("transpose(%" + found + ") {perm = (2, 0, 1)}") + ") {axes = (0)}");
  }

  void layer(int index) {
    const std::string gain = fresh(fmt::format("constant(f32 (8) @random({}))", 6 + index));
    const std::string epsilon = chance(0.8) ? "1e-5" : pick({"0", "-0.05", "-0.3", "-1e-3", "-1e-4", "1e-12"});
    if (epsilon[0] == '0' || epsilon[0] == '-') model_.brittle = true;
    if (chance(0.08)) top_ = mixed_rows(top_);
    const std::string normed = chance(0.8) ? fresh(fmt::format("layer_norm(%{}, %{}) {{axis = -1, epsilon = {}}}", top_, gain, epsilon))
                                           : op("mul", root_mean_square(epsilon), gain);
    const std::string keys = chance(0.8)   ? normed
                             : chance(0.5) ? top_
                                           : op(pick({"tanh", "sigmoid", "exp", "gelu", "abs", "reciprocal"}), top_);
    const std::string scale = chance(0.7) ? "1" : pick({"30", "1e4", "1e16", "1e32"});
    if (scale == "1e16" || scale == "1e32") model_.brittle = true;
    const std::string q0 = op("matmul", normed, weight(3 + 10 * index, scale)), k0 = op("matmul", keys,
                                                                                        weight(4 + 10 * index, chance(0.5)       ? "1"
                                                                                                               : scale == "1e32" ? "1"
                                                                                                                                 : scale));
    const std::string v0 = op("matmul", normed, weight(5 + 10 * index, "1"));
    const std::string q = heads(q0, "(0, 2, 1, 3)"), v = heads(v0, "(0, 2, 1, 3)");
    std::string mixed, bias = "bias";
    if (index > 0 && chance(0.2)) {  // another mask than the first layer's
      model_.what += " + other";
      bias = chance(0.3)   ? op("neg", "bias")
             : chance(0.5) ? op("mul", "bias", number("f32", pick({"0.1", "0", "1e-4"})))
                           : where(hidden_bool("m4"), "zero", "low");
    }
    if (chance(0.5)) {
      mixed = fresh(fmt::format("attention(%{}, %{}, %{}, %{}) {{scale = 0.5}}", q, heads(k0, "(0, 2, 1, 3)"), v, bias));
    } else if (chance(0.3)) {
      const std::string scores = op("mul", op("matmul", q, heads(k0, "(0, 2, 3, 1)")), number("f32", "0.5"));
      const std::string border = number("f32", pick({"-100", "0", "-1e30"}));
      const std::string chosen =
          chance(0.5) ? where(op("less", bias, border), "low", scores) : where(op("less", border, bias), scores, "low");
      mixed = op("matmul", fresh(fmt::format("softmax(%{}) {{axis = -1}}", chosen)), v);
    } else {
      std::string scores = op("mul", op("matmul", q, turned_keys(k0)), number("f32", "0.5"));
      if (chance(0.2)) scores = op("add", scores, relative_table());
      const bool selects = model_.what == "selected" && chance(0.5);
      const std::string biased = selects ? where(hidden_bool("m4"), "low", scores) : op("add", scores, bias);
      std::string weights = fresh(fmt::format("softmax(%{}) {{axis = -1}}", biased));
      if (chance(0.4)) weights = where(op("is_nan", weights), "zero", weights);
      mixed = op("matmul", weights, v);
    }
    const std::string together = fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1, 3)}}", mixed)), shape = fresh("shape(b, s, 8)");
    std::string out = fresh(fmt::format("dyn.reshape(%{}, %{})", together, shape));
    out = op("add", out, top_);
    if (chance(0.3)) {  // by way of rows of all sequences
      const std::string merged = fresh("shape(b*s, 8)"), flat = fresh(fmt::format("dyn.reshape(%{}, %{})", out, merged));
      out =
          fresh(fmt::format("dyn.reshape(%{}, %{})", op("tanh", op("matmul", flat, weight(8 + 10 * index, "1"))), fresh("shape(b, s, 8)")));
    }
    top_ = laid_out(out);
  }

  // x / sqrt(mean(x^2) + epsilon), or nearly.
  std::string root_mean_square(const std::string& epsilon) {
    const std::string squared = chance(0.9) ? op("mul", top_, top_) : op("mul", top_, op("abs", top_));
    const std::string mean = fresh(fmt::format("reduce_mean(%{}) {{axes = ({}), keepdims = 1}}", squared, chance(0.95) ? "-1" : "1"));
    const std::string root = op("sqrt", op("add", mean, number("f32", epsilon)));
    return chance(0.5) ? op("div", top_, root) : op("mul", top_, op("reciprocal", root));
  }

  // What hidden rows reach others by.
  std::string mixed_rows(const std::string& rows) {
    model_.what += " + mixed";
    switch (random_() % 8) {
      case 0: return op("add", rows, fresh(fmt::format("reduce_mean(%{}) {{axes = (1), keepdims = 1}}", rows)));
      case 1: return fresh(fmt::format("cumulative_sum(%{}) {{axis = 1}}", rows));
      case 2: return op("mul", rows, fresh(fmt::format("softmax(%{}) {{axis = 1}}", rows)));
      case 3: return op("sub", rows, fresh(fmt::format("reduce_max(%{}) {{axes = (1), keepdims = 1}}", rows)));
      case 4:
        return fresh(fmt::format("strided_slice(%{}) {{starts = (-1), ends = (-9223372036854775807), axes = (1), steps = (-1)}}", rows));
      case 5: {
        const std::string joined = fresh(fmt::format("dyn.reshape(%{}, %{})", rows, fresh("shape(b, 8, s)")));
        return fresh(fmt::format("transpose(%{}) {{perm = (0, 2, 1)}}", joined));
      }
      case 6: return fresh(fmt::format("layer_norm(%{}, %one) {{axis = 1, epsilon = 1e-5}}", rows));
      default: return op("add", rows, fresh(fmt::format("reduce_sum(%{}) {{axes = (0, 1), keepdims = 1}}", rows)));
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
        const std::string turned = op("tanh", fresh(fmt::format("transpose(%{}) {{perm = (1, 0, 2)}}", rows)));
        return fresh(fmt::format("transpose(%{}) {{perm = (1, 0, 2)}}", turned));
      }
      case 3: return op("add", rows, fresh(fmt::format("reduce_mean(%{}) {{axes = (2), keepdims = 1}}", rows)));
      default: return rows;
    }
  }

  // ---- Results ----

  void results() {
    line("h", "add(%" + top_ + ", %zero)");
    std::vector<std::string> names;
    if (chance(0.8)) names.push_back("%h");
    const int pooling = static_cast<int>(random_() % 13);
    const std::string entries = fresh(fmt::format("expand_dims(%{}) {{axes = (-1)}}", masked_by_ids_ ? "ids" : "m"));
    const auto sum = [&](const std::string& value) { return fresh(fmt::format("reduce_sum(%{}) {{axes = (1)}}", value)); };
    const auto shown = [&] { return where(hidden_bool(entries), "zero", "one"); };
    if (pooling <= 2) {
      const std::string w = shown(), count = op("max", sum(w), number("f32", pooling == 0 ? "1e-9" : "0"));
      line("pooled", fmt::format("div(%{}, %{})", sum(op("mul", "h", w)), count));
    } else if (pooling == 3) {
      line("pooled", fmt::format("reduce_sum(%{}) {{axes = (1)}}", where(hidden_bool(entries), "zero", "h")));
    } else if (pooling == 4) {  // weights that a wrong arithmetic takes for 0 at hidden rows
      const std::string type = model_.narrow ? pick({"f32", "i32", "u8"}) : pick({"f32", "f16", "i32", "u8", "bf16"}),
                        much = number(type, type == "f16"    ? "2048"
                                            : type == "bf16" ? "256"
                                            : type == "u8"   ? "255"
                                            : type == "i32"  ? "2147483647"
                                                             : "1e8");
      if (type == "f16" || type == "bf16") model_.narrow = true;
      const std::string w = op("add", cast(entries, type), much), taken = cast(op(pick({"greater", "less"}), w, much), "f32");
      line("pooled", fmt::format("reduce_sum(%{}) {{axes = (1)}}", op("mul", "h", taken)));
    } else if (pooling == 5) {
      const std::string first = fresh("strided_slice(%h) {starts = (0), ends = (1), axes = (1)}");
      line("pooled", fmt::format("squeeze(%{}) {{axes = (1)}}", first));
    } else if (pooling == 6) {
      line("pooled", "dyn.reshape(%h, %" + fresh("shape(b*s, 8)") + ")");
    } else if (pooling == 9) {  // largest of what takes part
      line("pooled", fmt::format("reduce_max(%{}) {{axes = (1)}}", where(hidden_bool(entries), pick({"low", "zero"}), "h")));
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
      const std::string w = op(pick({"mul", "max", "add", "pow"}), shown(), number("f32", pick({"1e-30", "0", "1", "2"})));
      line("pooled", sum(op("mul", "h", w)).insert(0, "add(%") + ", %zero)");
    } else if (pooling == 7 && chance(0.5)) {
      line("pooled", "reduce_max(%h) {axes = (1)}");
    } else {
      line("pooled", "tanh(%h)");
    }
    if (names.empty() || chance(0.8)) names.emplace_back("%pooled");
    returned_ = fmt::format("{}", names.size() == 2 ? names[0] + ", " + names[1] : names[0]);
  }

  std::mt19937_64 random_;
  PaddingModel model_;
  std::string text_, mask_type_, fill_, top_, returned_;
  bool masked_by_ids_ = false, inverted_ = false;
  int count_ = 0;
};

}  // namespace

PaddingModel padding_model(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace anydim::tests
