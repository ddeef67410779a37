// Steps of optimisers. Inputs: learning rate, number of the step, then for each tensor itself, its
// gradient and its states, each kind in a row.
#include <functional>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

using Values = std::vector<ValueId>;

class Step {
 public:
  explicit Step(Node& node) : node_(node) {}
  ValueId number(double value) { return node_.scalar(dtype_, value); }
  ValueId add(ValueId a, ValueId b) { return node_.emit(Op::add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return node_.emit(Op::sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return node_.emit(Op::mul, {a, b}); }
  ValueId scaled(ValueId a, double factor) { return mul(a, number(factor)); }
  ValueId div(ValueId a, ValueId b) { return node_.emit(Op::div, {a, b}); }
  ValueId root(ValueId a) { return node_.emit(Op::sqrt, {a}); }
  ValueId rate() { return node_.cast(node_.operand(0), dtype_); }
  ValueId time() { return node_.cast(node_.operand(1), dtype_); }
  // `later` from the second step on.
  ValueId by_time(ValueId later, ValueId first) {
    const ValueId started =
        node_.emit(Op::greater, {node_.operand(1), node_.scalar(node_.dtype(node_.operand(1)), 0)});
    return node_.emit(Op::where, {started, later, first});
  }

  // From a tensor, its gradient with the regularisation's added and its states to the next tensor
  // and states.
  using Update = std::function<Values(ValueId x, ValueId gradient, const Values& states)>;
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
      const ValueId x = node_.operand(2 + i);
      dtype_ = node_.dtype(x);
      Values held;
      for (std::size_t s = 0; s < states; ++s)
        held.push_back(node_.operand(2 + (2 + s) * count + i));
      const Values next = update(x, add(scaled(x, norm), node_.operand(2 + count + i)), held);
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
  step.run(1, [&](ValueId x, ValueId gradient, const Values& states) {
    const ValueId rate =
        step.div(step.rate(), step.add(step.scaled(step.time(), decay), step.number(1)));
    const ValueId squares = step.add(states[0], step.mul(gradient, gradient));
    const ValueId adapted = step.add(step.root(squares), step.number(epsilon));
    return Values{step.sub(x, step.div(step.mul(rate, gradient), adapted)), squares};
  });
}

void import_adam(Node& node) {
  const double alpha = node.real("alpha", 0.9), beta = node.real("beta", 0.999),
               epsilon = node.real("epsilon", 1e-6);
  const double after = node.real("norm_coefficient_post", 0);
  Step step(node);
  step.run(2, [&](ValueId x, ValueId gradient, const Values& states) {
    const ValueId mean = step.add(step.scaled(states[0], alpha), step.scaled(gradient, 1 - alpha));
    const ValueId squares =
        step.add(step.scaled(states[1], beta), step.scaled(step.mul(gradient, gradient), 1 - beta));
    const auto rest = [&](double base) {
      return step.sub(step.number(1), node.emit(Op::pow, {step.number(base), step.time()}));
    };
    const ValueId corrected = step.div(step.mul(step.rate(), step.root(rest(beta))), rest(alpha));
    const ValueId rate = step.by_time(corrected, step.rate());
    const ValueId adapted = step.div(mean, step.add(step.root(squares), step.number(epsilon)));
    return Values{step.scaled(step.sub(x, step.mul(rate, adapted)), 1 - after), mean, squares};
  });
}

void import_momentum(Node& node) {
  const double alpha = node.real("alpha"), beta = node.real("beta");
  const std::string mode = node.string("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    node.malformed("takes 'standard' or 'nesterov' as attribute 'mode', got {}", quoted_name(mode));
  }
  Step step(node);
  step.run(1, [&](ValueId x, ValueId gradient, const Values& states) {
    const ValueId weight = step.by_time(step.number(beta), step.number(1));
    const ValueId speed = step.add(step.scaled(states[0], alpha), step.mul(weight, gradient));
    const ValueId direction =
        mode == "standard" ? speed : step.add(gradient, step.scaled(speed, alpha));
    return Values{step.sub(x, step.mul(step.rate(), direction)), speed};
  });
}

}  // namespace anydim::frontends
