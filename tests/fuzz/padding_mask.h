// The masks of made-up encoders, and what is added to scores beside them: the part of
// tests/fuzz/padding_model.cpp that tries to fool the proof.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/padding_model.h"

namespace anydim::tests {

inline const std::vector<std::string> integers{"i64", "i32", "i16", "i8",
                                               "u64", "u32", "u16", "u8"};
inline const std::vector<std::string> floats{"f32", "f64", "f16", "bf16"};

// Writes bindings of a function one after the other. Functions that return a name have written the
// binding of that name.
class MaskWriter {
 protected:
  explicit MaskWriter(std::uint64_t seed) : random_(seed * 2654435761u + 17) {}

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
  std::string number(const std::string& type, const std::string& value) {
    return fresh(fmt::format("constant({} () [{}])", type, value));
  }
  std::string op(const std::string& name, const std::string& a) {
    return fresh(fmt::format("{}(%{})", name, a));
  }
  std::string op(const std::string& name, const std::string& a, const std::string& b) {
    return fresh(fmt::format("{}(%{}, %{})", name, a, b));
  }
  std::string where(const std::string& c, const std::string& a, const std::string& b) {
    return fresh(fmt::format("where(%{}, %{}, %{})", c, a, b));
  }
  std::string cast(const std::string& a, const std::string& to) {
    return fresh(fmt::format("cast(%{}) {{to = {}}}", a, to));
  }
  void expand(const std::string& name, const std::string& axes) {
    line(name, fmt::format("expand_dims(%{}) {{axes = {}}}", masked_by_ids_ ? "ids" : "m", axes));
  }

  void choose_mask() {
    masked_by_ids_ = chance(0.12);
    mask_type_ = masked_by_ids_ || chance(0.35) ? "i64"
                 : chance(0.15)                 ? "bool"
                 : chance(0.6)                  ? pick(integers)
                                                : pick(floats);
    inverted_ = !masked_by_ids_ && chance(0.2);
  }

  void positions() {
    text_ +=
        "  %ns = dim(s)\n  %begin = constant(i64 () [0])\n  %step = constant(i64 () [1])\n  %range "
        "= dyn.arange(%begin, %ns, %step)\n"
        "  %i = expand_dims(%range) {axes = (1)}\n  %j = expand_dims(%range) {axes = (0)}\n";
  }

  // ---- The mask ----

  // (b, 1, 1, s), read through indices of every entry, as torch's dynamo writes a mask; sometimes
  // at other keys.
  std::string looked_up_mask() {
    const auto spread = [&](const std::string& index, const std::string& axes) {
      const std::string wide =
          fresh(fmt::format("dyn.broadcast_to(%{}, %{})",
                            fresh(fmt::format("expand_dims(%{}) {{axes = {}}}", index, axes)),
                            fresh("shape(b, 1, 1, s)")));
      return fresh(fmt::format("expand_dims(%{}) {{axes = (-1)}}", wide));
    };
    std::string key = "range";
    if (chance(0.3)) key = op("sub", op("sub", "ns", "step"), "range");
    else if (chance(0.2)) key = op("min", "range", number("i64", "3"));
    const std::string sequences = fresh("dyn.arange(%begin, %" + fresh("dim(b)") + ", %step)");
    const std::string places =
        fresh(fmt::format("concat(%{}, %{}) {{axis = -1}}", spread(sequences, "(1, 2, 3)"),
                          spread(key, "(0, 1, 2)")));
    return fmt::format("gather_nd(%{}, %{}) {{batch_dims = 0}}", masked_by_ids_ ? "ids" : "m",
                       places);
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
    if (!masked_by_ids_ && chance(0.4) && mask_type_ != "bool")
      return op("equal", entries, number(mask_type_, inverted_ ? "1" : "0"));
    const std::string truth = mask_type_ == "bool" ? entries : cast(entries, "bool");
    return inverted_ ? truth : op("not", truth);
  }

  std::string mask_bias() {
    if (masked_by_ids_) {
      model_.what = "ids";
      model_.kept_entry = 1;
      model_.hidden_entry = 0;
      return where(chance(0.3) ? op("equal", "m4", number("i64", "0")) : hidden_bool("m4"), "low",
                   "zero");
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
            inverted_ ? op("max", cast("r4", "f32"), cast("m4", "f32"))
                      : op("sub", "one", op("mul", cast("r4", "f32"), cast("m4", "f32")));
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
    const std::string rows = fresh(fmt::format("reduce_sum(%{}) {{axes = (1), keepdims = 1}}",
                                               cast("m", pick({"i64", "i32", "i64", "u8"}))));
    const std::string wide =
        cast(fresh(fmt::format("expand_dims(%{}) {{axes = (1, 2)}}", rows)), "i64");
    const std::string key = chance(0.8) ? "j" : op(pick({"add", "sub"}), "j", "step");
    const std::string seen =
        chance(0.5) ? op("less", key, wide) : op(pick({"greater", "greater_equal"}), wide, key);
    return where(seen, inverted_ ? "low" : "zero", inverted_ ? "zero" : "low");
  }

  // What a wrong arithmetic takes for a mask.
  std::string attack() {
    const std::string m = chance(0.8) ? "m4" : "r4", wide = cast(m, "i64"),
                      off = op("sub", wide, number("i64", "1"));  // -1 at 0, 0 at 1
    const std::string large = number("f32", pick({"1e31", "1e38", "3e38"}));
    const std::string hidden = op("sub", number("i64", "1"), wide);
    const int kind = static_cast<int>(random_() % 9);
    model_.what = fmt::format("attack {}", kind);
    switch (kind) {
      case 0: return op("mul", cast(cast(off, pick(integers)), "f32"), large);
      case 1: {
        const std::string type = pick({"i32", "u32", "u8", "i16", "u64"}),
                          half = number(type, type == "u8"    ? "16"
                                              : type == "i16" ? "256"
                                              : type == "u64" ? "4294967296"
                                                              : "65536");
        return op("mul", cast(op("mul", op("mul", cast(hidden, type), half), half), "f32"), "low");
      }
      case 2: {
        const std::string type = pick({"u8", "u16", "u32"});
        return op(
            "mul",
            cast(op("shift_left", cast(hidden, type), number(type, pick({"7", "8", "16", "31"}))),
                 "f32"),
            "low");
      }
      case 3: {
        const std::string tiny =
            op("mul", cast(hidden, "f32"), number("f32", pick({"1e-9", "1e-8", "6e-8", "1e-5"})));
        const std::string half = cast(tiny, pick({"f16", "bf16"}));
        converts_ = true;
        return where(op("greater", cast(half, "f32"), "zero"), "low", "zero");
      }
      case 4: {
        const std::string type = pick({"f32", "f16", "bf16"}),
                          much = number(type, type == "f16"    ? "2048"
                                              : type == "bf16" ? "256"
                                                               : "1e8");
        if (type != "f32") model_.narrow = true;
        return where(op("greater", op("add", cast(hidden, type), much), much), "low", "zero");
      }
      case 5: {
        const std::string narrow =
            cast(op("add", op("mul", hidden, number("i64", pick({"128", "200", "256", "32768"}))),
                    number("i64", "0")),
                 pick({"i8", "u8", "i16"}));
        return where(op("greater", cast(narrow, "i64"), number("i64", "0")), "low", "zero");
      }
      case 6:
        return op("mul", cast(op("bit_not", cast(m, pick({"u8", "i8", "u16"}))), "f32"),
                  chance(0.5) ? "low" : number("f32", "1e31"));
      case 7: {  // positions that wrap
        const std::string type = pick({"i32", "i64"}),
                          far = number(type, type == "i32" ? "1073741824" : "2305843009213693952");
        const std::string place = op("mul", cast(chance(0.5) ? "j" : "i", type), far);
        return where(op("and", hidden_bool("m4"), op("greater_equal", place, number(type, "0"))),
                     "low", "zero");
      }
      default: {  // sizes that wrap: arithmetic on sizes in i64 counts as exact
                  // (ir/shapes/shape_rules.h), for packed and padded calls alike
        model_.wraps_sizes = true;
        const std::string size = op("mul", op("mul", "ns", number("i64", "2305843009213693952")),
                                    number("i64", pick({"2", "4", "8"})));
        return where(op("and", hidden_bool("m4"), op("greater_equal", size, number("i64", "0"))),
                     "low", "zero");
      }
    }
  }

  // Masks that are nearly one: read at other keys, lifted somewhere, of fills that do not hide, or
  // hide everything.
  std::string misuse() {
    const int kind = static_cast<int>(random_() % 12);
    model_.what = fmt::format("misuse {}", kind);
    const std::string hidden = hidden_bool("m4"), plain = where(hidden, "low", "zero"),
                      real = cast("m4", "f32");
    const auto slice = [&](const std::string& what) {
      return fresh(fmt::format("strided_slice(%m4) {{{}}}", what));
    };
    switch (kind) {
      case 0:
        return op("mul",
                  cast(op("sub", number("i64", "1"),
                          cast(slice("starts = (-1), ends = (-9223372036854775807), axes = (3), "
                                     "steps = (-1)"),
                               "i64")),
                       "f32"),
                  "low");
      case 1:
        return where(op("and", hidden, op("greater", "j", number("i64", "0"))), "low", "zero");
      case 2: {  // batch and sequence exchanged
        const std::string turned =
            fresh("transpose(%" + fresh("dyn.reshape(%m, %" + fresh("shape(s, b)") + ")") +
                  ") {perm = (1, 0)}");
        return where(
            cast(op("sub", cast(fresh("expand_dims(%" + turned + ") {axes = (1, 2)}"), "f32"),
                    "one"),
                 "bool"),
            "low", "zero");
      }
      case 3: {  // fills of other dtypes
        const std::string type = pick({"f16", "bf16", "f64"}),
                          fill = type == "f16"    ? "-65504"
                                 : type == "bf16" ? "-3e38"
                                                  : pick({"-1e308", "-1e39", "-1e4"});
        if (type != "f64") model_.narrow = true;
        return cast(op("mul", cast(hidden, type), number(type, fill)), "f32");
      }
      case 4:
        return chance(0.5)
                   ? op("add", plain, plain)
                   : op("mul", plain, number("f32", pick({"2", "0.5", "1e-3", "-1", "1e-38"})));
      case 5: return op("mul", plain, cast(chance(0.5) ? "j" : "i", "f32"));
      case 6:
        return op(pick({"max", "min"}), plain, number("f32", pick({"-20", "-1e9", "-3e38", "0"})));
      case 7:
        return op("log", chance(0.5)
                             ? real
                             : op("add", real, number("f32", pick({"1e-9", "1e-38", "1e-45"}))));
      case 8:
        return op("div", op("sub", real, "one"),
                  chance(0.5) ? real : op("add", real, number("f32", "1e-20")));
      case 9:
        return op("sub", "zero",
                  op("mul",
                     op("exp", op("mul", cast(hidden, "f32"),
                                  number("f32", pick({"5", "20", "88", "89"})))),
                     number("f32", pick({"1", "100"}))));
      case 10: return where(op(pick({"or", "xor"}), hidden, op("equal", "i", "j")), "low", "zero");
      default: {  // the entry that ids of the key choose
        const std::string picked =
            fresh("gather(%" + fresh("dyn.reshape(%m, %" + fresh("shape(b*s)") + ")") + ", %" +
                  op("mod", "ids", op("add", "ns", number("i64", "1"))) + ") {axis = 0}");
        return where(
            cast(op("sub", cast(fresh("expand_dims(%" + picked + ") {axes = (1, 2)}"), "f32"),
                    "one"),
                 "bool"),
            "low", "zero");
      }
    }
  }

  std::string small(const std::string& type) {
    const bool is_unsigned = type[0] == 'u';
    if (type == "bool") return number("bool", pick({"true", "false"}));
    if (type[0] == 'f' || type[0] == 'b')
      return number(type, pick({"0", "1", "-1", "0.5", "2", "1e-3", "-3", "100"}));
    return number(type, is_unsigned ? pick({"0", "1", "2", "3", "7", "100"})
                                    : pick({"0", "1", "-1", "2", "-2", "3", "100", "-128"}));
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
        else
          value = op(pick({"and", "or", "xor"}), value,
                     chance(0.5) ? small("bool") : cast("m4", "bool"));
        continue;
      }
      const bool real = type[0] == 'f' || type[0] == 'b';
      if (type == "f16" || type == "bf16") model_.narrow = true;
      if (chance(0.25)) {
        value = op(pick({"equal", "less", "greater", "less_equal", "greater_equal"}), value,
                   small(type));
        type = "bool";
      } else if (chance(0.2)) {
        value = real
                    ? op(pick({"abs", "neg", "sqrt", "exp", "tanh", "relu", "floor", "log"}), value)
                    : op(type[0] == 'u' ? "bit_not" : pick({"abs", "neg", "bit_not"}), value);
      } else if (!real && chance(0.2)) {
        value = type[0] == 'u' ? op(pick({"shift_left", "shift_right", "bit_and", "bit_or"}), value,
                                    small(type))
                               : op(pick({"bit_and", "bit_or", "bit_xor"}), value, small(type));
      } else {
        value = chance(0.7) ? op(pick({"add", "sub", "mul", "min", "max"}), value, small(type))
                            : op("sub", small(type), value);
      }
    }
    if (type == "bool" && chance(0.7))
      return chance(0.5) ? where(value, "low", "zero") : where(value, "zero", "low");
    const std::string real = type == "f32" ? value : cast(value, "f32");
    return op("mul", real, chance(0.8) ? "low" : number("f32", "1e31"));
  }

  // ---- Between rows ----

  std::string between(const std::string& mask) {
    if (chance(0.5)) return fmt::format("add(%{}, %zero)", mask);
    const std::string distance = op("sub", "j", "i"), real = cast(distance, "f32"),
                      far = op("abs", real);
    const std::string slope = number("f32", pick({"-0.125", "-0.5", "-3", "0.25"}));
    std::string term;
    switch (random_() % 14) {
      case 12:
        term = op("mul", far,
                  fresh("constant(f32 (1, 2, 1, 1) [-0.5, " +
                        std::string(pick({"-0.25", "0.25", "-1e30", "nan"})) + "])"));
        break;
      case 13: {  // a table of distances, of each head
        const std::string three = number("i64", "3"),
                          near = op("max", op("min", distance, three), op("neg", three));
        const std::string found =
            fresh(fmt::format("gather(%{}, %{}) {{axis = 0}}",
                              fresh("constant(f32 (7, 2) @random(40))"), op("add", near, three)));
        term = fresh("expand_dims(%" + fresh("transpose(%" + found + ") {perm = (2, 0, 1)}") +
                     ") {axes = (0)}");
        break;
      }
      case 0: term = where(op("less_equal", "j", "i"), "zero", "low"); break;
      case 1:
        term = where(op("less_equal", op("abs", distance), number("i64", "2")), "zero", "low");
        break;
      case 2: term = op("mul", far, slope); break;
      case 3: term = op("exp", op("neg", far)); break;
      case 4: term = op("neg", op("log", op("add", far, "one"))); break;
      case 5: term = op("sin", real); break;
      case 6: term = op("div", slope, op("add", far, "one")); break;
      case 7:
        term =
            op("mul", fresh(fmt::format("pow(%{}, %{})", far, number("f32", pick({"2", "0.5"})))),
               slope);
        break;
      case 8: term = fresh(fmt::format("mod(%{}, %{})", real, number("f32", "3"))); break;
      case 9: term = op("mul", cast(op("sub", "ns", "j"), "f32"), slope); break;
      case 10:
        term = where(op("less", "j", "i"), number("f32", pick({"-3", "-inf", "5"})), "zero");
        break;
      default:
        term = fresh("constant(f32 () [" + std::string(pick({"-3", "-5000", "7"})) + "])");
        break;
    }
    model_.what += " + between";
    return fmt::format("add(%{}, %{})", mask, term);
  }

  std::mt19937_64 random_;
  PaddingModel model_;
  std::string text_, mask_type_, fill_, top_, returned_;
  bool masked_by_ids_ = false, inverted_ = false;
  bool converts_ = false;  // to f16 or bf16 and back, which kernels carry out as written
  int count_ = 0;
};

}  // namespace anydim::tests
