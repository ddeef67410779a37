// Steps of optimisers. Inputs: learning rate, number of the step, then for each tensor itself, its
// gradient and its states, each kind in a row.
#include <functional>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

class Step {
 public:
  explicit Step(Node& node) : node_(node) {}
  Value rate() { return cast(node_.operand(0), dtype_); }
  Value time() { return cast(node_.operand(1), dtype_); }
  // `later` from the second step on.
  Value by_time(Value later, const Operand& first) {
    const Value started = node_.operand(1) > 0;
    return where(started, later, first);
  }

  // From a tensor, its gradient with the regularisation's added and its states to the next tensor
  // and states.
  using Update = std::function<Values(Value x, Value gradient, const Values& states)>;
  void run(std::size_t states, const Update& update) {
    const double norm = node_.real("norm_coefficient", 0);
    const std::size_t kinds = 2 + states, count = (node_.operand_count() - 2) / kinds;
    if (node_.operand_count() != 2 + count * kinds || count == 0 ||
        node_.output_count() > count * (kinds - 1)) {
      node_.malformed(
          "has {} inputs and {} outputs; expected 2 and {} for each tensor, and {} for each",
          node_.operand_count(), node_.output_count(), kinds, kinds - 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Value x = node_.operand(2 + i);
      dtype_ = x.dtype();
      Values held;
      for (std::size_t s = 0; s < states; ++s)
        held.push_back(node_.operand(2 + (2 + s) * count + i));
      const Values next = update(x, x * norm + node_.operand(2 + count + i), held);
      for (std::size_t k = 0; k < next.size(); ++k) node_.output(k * count + i, next[k]);
    }
  }

 private:
  Node& node_;
  DType dtype_ = DType::F32;  // of the tensor at work
};

}  // namespace

void import_adagrad(Node& node) {
  const double decay = node.real("decay_factor", 0), epsilon = node.real("epsilon", 1e-6);
  Step step(node);
  step.run(1, [&](Value x, Value gradient, const Values& states) {
    const Value rate = step.rate() / (step.time() * decay + 1);
    const Value squares = states[0] + gradient * gradient;
    const Value adapted = sqrt(squares) + epsilon;
    return Values{x - rate * gradient / adapted, squares};
  });
}

void import_adam(Node& node) {
  const double alpha = node.real("alpha", 0.9), beta = node.real("beta", 0.999),
               epsilon = node.real("epsilon", 1e-6);
  const double after = node.real("norm_coefficient_post", 0);
  Step step(node);
  step.run(2, [&](Value x, Value gradient, const Values& states) {
    const Value mean = states[0] * alpha + gradient * (1 - alpha);
    const Value squares = states[1] * beta + gradient * gradient * (1 - beta);
    const auto rest = [&](double base) { return 1 - pow(base, step.time()); };
    const Value corrected = step.rate() * sqrt(rest(beta)) / rest(alpha);
    const Value rate = step.by_time(corrected, step.rate());
    const Value adapted = mean / (sqrt(squares) + epsilon);
    return Values{(x - rate * adapted) * (1 - after), mean, squares};
  });
}

void import_momentum(Node& node) {
  const double alpha = node.real("alpha"), beta = node.real("beta");
  const std::string mode = node.one_of({"standard", "nesterov"}, "mode", "");
  Step step(node);
  step.run(1, [&](Value x, Value gradient, const Values& states) {
    const Value weight = step.by_time(node.scalar(x.dtype(), beta), 1);
    const Value speed = states[0] * alpha + weight * gradient;
    const Value direction = mode == "standard" ? speed : gradient + speed * alpha;
    return Values{x - step.rate() * direction, speed};
  });
}

}  // namespace anydim::frontends
