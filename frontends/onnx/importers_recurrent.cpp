// LSTM, GRU and RNN: a product over all steps at once, then a loop over steps of ordinary ops, for
// each direction. ONNX Runtime's DynamicQuantizeLSTM is the LSTM whose products are of integers.
#include <functional>
#include <limits>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/onnx/reversed_sequences.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

enum class Weights { real, quantised };

// The parts that the three operators share. Within one direction everything is [batch, hidden],
// [steps, batch, ...] before that.
class Recurrent {
 public:
  Recurrent(Node& node, std::int64_t gates, std::vector<std::string> default_activations,
            std::vector<std::size_t> state_operands, Weights weights = Weights::real)
      : node_(node), gates_(gates), state_operands_(std::move(state_operands)),
        quantised_(weights == Weights::quantised), dtype_(node.dtype()) {
    hidden_ = node.integer("hidden_size");
    constexpr std::int64_t most = 1 << 30;  // gates of so many are more than any tensor holds
    if (hidden_ < 1 || hidden_ > most)
      node.malformed("has the hidden_size {}; expected 1 to {}", hidden_, most);
    layout_ = node.opset() >= 14 ? node.integer("layout", 0) : 0;
    const std::string direction = node.string("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
      node.malformed("has the direction {}", quoted_name(direction));
    }
    directions_ = direction == "bidirectional" ? 2 : 1;
    first_reversed_ = direction == "reverse";
    clip_ = node.real("clip", 0);
    activations_ = node.strings("activations");
    const std::size_t each = default_activations.size();
    if (activations_.empty())
      for (std::int64_t d = 0; d < directions_; ++d)
        activations_.insert(activations_.end(), default_activations.begin(),
                            default_activations.end());
    if (activations_.size() != each * static_cast<std::size_t>(directions_)) {
      node.malformed("has {} activations, expected {}", activations_.size(),
                     each * static_cast<std::size_t>(directions_));
    }
    if (node.has_attribute("activation_alpha")) alphas_ = node.reals("activation_alpha");
    if (node.has_attribute("activation_beta")) betas_ = node.reals("activation_beta");
    x_ = node.operand(0);
    if (layout_ != 0) x_ = transpose(x_, {1, 0, 2});
    const Value shape = shape_of(x_);
    steps_ = gather(shape, 0, 0);
    batch_ = slice(shape, 0, 1, 2);
    if (node.has_operand(4))
      lengths_ = reshaped(node.index_operand(4), {batch_, node.index_vector({1})});
    if (!quantised_) return;
    check_quantised();
    if (lengths_ != no_value) clear_after_all();
  }

  // From a step's gates (of the input alone, biases added) and states to the next states; the first
  // of them is the step's output.
  using Cell = std::function<Values(std::int64_t direction, Value gates, const Values& states)>;
  // The biases that are added before the loop: W's and R's, or W's alone where the cell adds R's to
  // something else.
  enum class Added { All, OfInputs };

  void run(Added added, const Cell& cell) {
    std::vector<Values> ends(state_operands_.size());
    Values outputs;
    for (std::int64_t d = 0; d < directions_; ++d) {
      Values results = run_direction(d, added, cell);
      for (std::size_t s = 0; s < ends.size(); ++s) ends[s].push_back(with_axes(results[s], {0}));
      Value all = results.back();
      if (aligned(d)) {
        all = reversed_sequences(node_, all, node_.index_operand(4));
      } else if (reversed(d)) {
        constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
        all = slice(all, 0, -1, least, -1);
      }
      outputs.push_back(with_axes(all, {1}));
    }
    Value y = directions_ == 1 ? outputs[0] : concat(outputs, 1);
    if (layout_ != 0) y = transpose(y, {2, 0, 1, 3});
    node_.output(0, y);
    for (std::size_t s = 0; s < ends.size(); ++s) {
      Value end = directions_ == 1 ? ends[s][0] : concat(ends[s], 0);
      if (layout_ != 0) end = transpose(end, {1, 0, 2});
      node_.output(s + 1, end);
    }
  }

  // What the direction at work reads, made before its loop: R, a column for each row that ONNX
  // gives, biases, peepholes (no_value where they are left out).
  Value weights() const { return recurrent_.columns; }
  Value bias() const { return bias_; }
  Value peepholes() const { return peepholes_; }
  Value transposed(Value matrix) { return transpose(matrix, {1, 0}); }
  // Parts of `count` times the hidden size along the last axis.
  Values split(Value value, std::size_t count) {
    return node_.emit_many(Op::split, {value},
                           {{"axis", std::int64_t{-1}}, {"sizes", Ints(count, hidden_)}}, count);
  }
  // [first, last) of them.
  Value parts(Value value, std::int64_t first, std::int64_t last) {
    return slice(value, -1, first * hidden_, last * hidden_);
  }
  Value of_state(Value h) { return times(h, recurrent_); }  // h R

  // The activation at `index` among those of a direction, over the clipped value.
  Value activate(std::int64_t direction, std::size_t index, Value x, bool clipped = true) {
    if (clip_ > 0 && clipped) x = max(min(x, clip_), -clip_);
    const std::size_t each = activations_.size() / static_cast<std::size_t>(directions_);
    const std::size_t place = static_cast<std::size_t>(direction) * each + index;
    return named_activation(activations_[place], x,
                            parameter(alphas_, place, &ActivationParameters::alpha),
                            parameter(betas_, place, &ActivationParameters::beta));
  }

 private:
  // Of the activation at `place` among those of all directions: each takes the next of the numbers
  // given, if it reads such.
  std::optional<double> parameter(const std::vector<double>& given, std::size_t place,
                                  bool ActivationParameters::* reads) const {
    const auto first = activations_.begin();
    const auto taken = static_cast<std::size_t>(
        std::count_if(first, first + static_cast<std::ptrdiff_t>(place),
                      [&](const std::string& name) { return activation_parameters(name).*reads; }));
    return taken < given.size() ? std::optional(given[taken]) : std::nullopt;
  }

  struct Matrix {
    Value columns, scale = no_value, zero_point = no_value;  // no scale: real numbers
  };
  Value times(Value rows, const Matrix& matrix) {
    return matrix.scale == no_value
               ? matmul(rows, matrix.columns)
               : quantised_product(node_, rows, matrix.columns, matrix.scale, matrix.zero_point);
  }
  // W or R of the direction. Quantised ones hold columns already, each or all with a scale.
  Matrix matrix(std::size_t operand, std::int64_t direction) {
    const Value given = part(operand, direction);
    if (!quantised_) return {transposed(sized(given, 0, gates_ * hidden_))};
    const auto of_columns = [&](std::size_t parameter) {
      const Value value = part(parameter, direction);
      return value.rank() == 0 ? value : sized(value, 0, gates_ * hidden_);
    };
    const std::size_t scale = operand == 1 ? 8 : 10;
    return {sized(given, 1, gates_ * hidden_), of_columns(scale), of_columns(scale + 1)};
  }

  void check_quantised() {
    for (const std::size_t operand : {1, 2}) check_8_bits(node_, operand);
    for (const std::size_t operand : {8, 9, 10, 11}) {
      if (const std::size_t rank = node_.operand(operand).rank(); rank != 1 && rank != 2) {
        node_.malformed(
            "takes one number for each direction or for each of its columns as input {}, so a rank "
            "of 1 or 2, got {}",
            operand, rank);
      }
    }
  }

  // Steps after the last that any row has are no part of the range of X.
  void clear_after_all() {
    const Value some =
        with_axes(positions(dim_of(x_, 0)), {1, 2}) < node_.emit(Op::reduce_max, {lengths_});
    x_ = where(some, x_, 0);
  }

  // One part that must be the whole: other sizes are refused, where sums below would broadcast
  // them.
  Value sized(Value value, std::int64_t axis, std::int64_t extent) {
    return node_.emit(Op::split, {value}, {{"axis", axis}, {"sizes", Ints{extent}}});
  }
  // Row `direction` of an operand, `axis` being [directions].
  Value part(std::size_t operand, std::int64_t direction, std::int64_t axis = 0) {
    return gather(sized(node_.operand(operand), axis, directions_), direction, axis);
  }
  bool reversed(std::int64_t direction) const { return direction == 1 || first_reversed_; }
  // Whether each row starts with its own last step, at once with the others: states of rows that
  // are quantised together have one range.
  bool aligned(std::int64_t direction) const {
    return quantised_ && reversed(direction) && lengths_ != no_value;
  }

  Value initial_state(std::size_t operand, std::int64_t direction) {
    const Value hidden = node_.index_vector({hidden_});
    if (node_.has_operand(operand)) {
      // The permutation demands two axes: a reshape alone would take any that hold as many
      // elements.
      const Value state = transpose(part(operand, direction, layout_ != 0 ? 1 : 0), {0, 1});
      return reshaped(sized(state, -1, hidden_), {batch_, hidden});
    }
    const Value shape = concat({batch_, hidden}, 0);
    return node_.emit(Op::dyn_full, {node_.scalar(dtype_, 0), shape});
  }

  // The states at the end, then every step's output in the order of the loop.
  Values run_direction(std::int64_t direction, Added added, const Cell& cell) {
    Value inputs = times(x_, matrix(1, direction));
    recurrent_ = matrix(2, direction);
    recurrent_.columns = sized(recurrent_.columns, 0, hidden_);
    bias_ = node_.has_operand(3) ? sized(part(3, direction), 0, 2 * gates_ * hidden_) : no_value;
    peepholes_ = node_.has_operand(7) ? sized(part(7, direction), 0, 3 * hidden_) : no_value;
    if (bias_ != no_value) {
      const Value of_inputs = parts(bias_, 0, gates_);
      inputs =
          inputs + (added == Added::All ? of_inputs + parts(bias_, gates_, 2 * gates_) : of_inputs);
    }
    if (aligned(direction)) inputs = reversed_sequences(node_, inputs, node_.index_operand(4));
    Values initial;
    for (const std::size_t operand : state_operands_)
      initial.push_back(initial_state(operand, direction));
    Node::Loop loop(node_, steps_, no_value, initial);
    const Value step =
        reversed(direction) && !aligned(direction) ? loop.round_from_end() : loop.round();
    const Values states = loop.carried();
    Values read = states;
    if (quantised_ && lengths_ != no_value) {
      // The output of a row that has ended, which is 0, belongs to the range, and its state does
      // not.
      read[0] = where(step <= lengths_, states[0], 0);
    }
    Values next = cell(direction, gather(inputs, step, 0), read);
    Value output = next[0];
    if (lengths_ != no_value) {
      // Rows that have ended keep their states and give zeros.
      const Value within = step < lengths_;
      output = where(within, output, 0);
      for (std::size_t s = 0; s < next.size(); ++s) next[s] = where(within, next[s], states[s]);
    }
    Values yielded{loop.goes_on()};
    yielded.insert(yielded.end(), next.begin(), next.end());
    yielded.push_back(output);
    const Values results = loop.close(yielded);
    const std::vector<ir::Dim>* const dims = node_.dims(x_);  // [steps, batch, inputs]
    const auto extent = [&](std::size_t axis) {
      return dims != nullptr && axis < dims->size() ? std::optional((*dims)[axis]) : std::nullopt;
    };
    for (std::size_t s = 0; s + 1 < results.size(); ++s)
      node_.know(results[s], {extent(1), ir::Dim(hidden_)});
    node_.know(results.back(), {extent(0), extent(1), ir::Dim(hidden_)});
    return results;
  }

  Node& node_;
  std::int64_t gates_;
  std::vector<std::size_t> state_operands_;
  bool quantised_;
  DType dtype_;
  std::int64_t hidden_ = 0, layout_ = 0, directions_ = 1;
  bool first_reversed_ = false;
  double clip_ = 0;
  std::vector<std::string> activations_;
  std::vector<double> alphas_, betas_;
  Matrix recurrent_{no_value};
  Value bias_ = no_value, peepholes_ = no_value;
  Value x_ = no_value, steps_ = no_value, batch_ = no_value, lengths_ = no_value;
};

void long_short_term_memory(Node& node, Weights weights) {
  Recurrent lstm(node, 4, {"Sigmoid", "Tanh", "Tanh"}, {5, 6}, weights);
  const bool coupled = node.integer("input_forget", 0) != 0;
  lstm.run(Recurrent::Added::All, [&](std::int64_t direction, Value gates, const Values& states) {
    const Value h = states[0], c = states[1];
    const Value sum = gates + lstm.of_state(h);
    const Values part = lstm.split(sum, 4);  // input, output, forget, cell
    Value input = part[0], output = part[1], forget = part[2];
    const Value peepholes = lstm.peepholes();
    const auto peep = [&](Value gate, std::int64_t place, Value cell) {
      return peepholes == no_value ? gate : gate + cell * lstm.parts(peepholes, place, place + 1);
    };
    input = lstm.activate(direction, 0, peep(input, 0, c));
    forget = coupled ? 1 - input : lstm.activate(direction, 0, peep(forget, 2, c));
    const Value fresh = lstm.activate(direction, 1, part[3]);
    const Value next = forget * c + input * fresh;
    output = lstm.activate(direction, 0, peep(output, 1, next));
    // ONNX clips what every activation reads, ONNX Runtime what gates do.
    const bool clipped = weights == Weights::real;
    return Values{output * lstm.activate(direction, 2, next, clipped), next};
  });
}

}  // namespace

void import_rnn(Node& node) {
  Recurrent rnn(node, 1, {"Tanh"}, {5});
  rnn.run(Recurrent::Added::All, [&](std::int64_t direction, Value gates, const Values& states) {
    return Values{rnn.activate(direction, 0, gates + rnn.of_state(states[0]))};
  });
}

void import_gru(Node& node) {
  Recurrent gru(node, 3, {"Sigmoid", "Tanh"}, {5});
  const bool linear_first = node.integer("linear_before_reset", 0) != 0;
  gru.run(
      Recurrent::Added::OfInputs, [&](std::int64_t direction, Value gates, const Values& states) {
        const Value h = states[0], bias = gru.bias();
        const Values input = gru.split(gates, 3);
        Value both = matmul(h, gru.parts(gru.weights(), 0, 2));
        if (bias != no_value) both = both + gru.parts(bias, 3, 5);
        const Values parts = gru.split(both, 2);
        const Value update = gru.activate(direction, 0, input[0] + parts[0]);
        const Value reset = gru.activate(direction, 0, input[1] + parts[1]);
        const Value own = gru.parts(gru.weights(), 2, 3);
        const auto with_bias = [&](Value value) {
          return bias == no_value ? value : value + gru.parts(bias, 5, 6);
        };
        const Value carried =
            linear_first ? reset * with_bias(matmul(h, own)) : with_bias(matmul(reset * h, own));
        const Value fresh = gru.activate(direction, 1, input[2] + carried);
        return Values{(1 - update) * fresh + update * h};
      });
}

void import_lstm(Node& node) { long_short_term_memory(node, Weights::real); }

void import_dynamic_quantize_lstm(Node& node) { long_short_term_memory(node, Weights::quantised); }

}  // namespace anydim::frontends
