// Sums of convolutions of one image, with fewer convolutions.
//
// Networks that are trained with several branches a layer, which a model may still have, add up
// convolutions of one image, and the image itself times a number a channel. A branch whose windows
// lie within another one's, at the same steps, and whose groups of channels lie within its groups,
// is added to that one's weight; so are numbers a channel that a branch or the sum is multiplied by
// or has added (Ding et al., "RepVGG: Making VGG-style ConvNets Great Again", 2021, of whose kinds
// of branches any number may stand in a sum, and dilated and grouped ones). Weights are added in
// f64 and rounded once; results differ in the last places from sums in the model's order. Only f32.
// Types must be inferred; constants computed; channels are outermost.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "passes/binding_writer.h"
#include "passes/convolution_term.h"
#include "passes/dim_order.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A term's weight within another one's windows.
struct Part {
  ConvolutionTerm term;
  // By axis: the window's first place among the others, and steps between its places there.
  std::vector<std::int64_t> first, steps;
};

std::optional<Part> within(const ConvolutionTerm& term, const ConvolutionTerm& host) {
  if (term.image != host.image || term.strides != host.strides || term.groups % host.groups != 0)
    return std::nullopt;
  Part part{term, {}, {}};
  for (std::size_t i = 0; i < host.sizes.size(); ++i) {
    const std::int64_t step = host.sizes[i] == 1 ? 1 : host.dilations[i],
                       before = host.before[i] - term.before[i],
                       apart = term.sizes[i] == 1 ? step : term.dilations[i];
    if (before < 0 || before % step != 0 || apart % step != 0 ||
        before / step + (term.sizes[i] - 1) * (apart / step) >= host.sizes[i])
      return std::nullopt;
    part.first.push_back(before / step);
    part.steps.push_back(apart / step);
  }
  return part;
}

// The sum of all parts' weights, as the host's is laid out.
class SummedWeight : public TensorSource {
 public:
  SummedWeight(const ConvolutionTerm& host, std::vector<Part> parts)
      : sizes_(host.sizes), channels_(host.channels), outputs_(host.outputs), groups_(host.groups),
        parts_(std::move(parts)) {}

  void read(std::span<std::byte> to) const override {
    const std::span into(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
    std::vector<double> sums(into.size());
    for (const Part& part : parts_) add(part, sums);
    std::ranges::transform(sums, into.begin(), [](double sum) { return static_cast<float>(sum); });
  }

 private:
  void add(const Part& part, std::vector<double>& sums) const {
    const ConvolutionTerm& term = part.term;
    const std::int64_t places = term.places(), taken = channels_ / term.groups;
    const std::vector<std::int64_t> where = places_of(part);
    const std::int64_t own_places = std::ssize(sums) / (outputs_ * (channels_ / groups_));
    const Tensor opened = term.weight ? term.weight->opened() : Tensor();
    const float* from = term.weight ? opened.as<float>().data() : nullptr;
    for (std::int64_t o = 0; o < outputs_; ++o) {
      const std::int64_t begin = o / (outputs_ / term.groups) * taken,
                         own_begin = o / (outputs_ / groups_) * (channels_ / groups_);
      const double scale = term.scale[static_cast<std::size_t>(o)];
      for (std::int64_t c = 0; c < taken; ++c) {
        double* row =
            sums.data() + (o * (channels_ / groups_) + begin - own_begin + c) * own_places;
        for (std::int64_t p = 0; p < places; ++p)
          row[where[static_cast<std::size_t>(p)]] +=
              scale * (from == nullptr ? 1.0 : from[(o * taken + c) * places + p]);
      }
    }
  }

  // Of the part's places, row-major: their places in the sum's windows.
  std::vector<std::int64_t> places_of(const Part& part) const {
    std::vector<std::int64_t> places{0};
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      std::vector<std::int64_t> finer;
      for (const std::int64_t place : places)
        for (std::int64_t p = 0; p < part.term.sizes[i]; ++p)
          finer.push_back(place * sizes_[i] + part.first[i] + p * part.steps[i]);
      places = std::move(finer);
    }
    return places;
  }

  std::vector<std::int64_t> sizes_;
  std::int64_t channels_, outputs_, groups_;
  std::vector<Part> parts_;
};

class Rewriter {
 public:
  explicit Rewriter(Function& function)
      : function_(function), graph_(function, function.body), reads_(count_reads(function)),
        readers_(function.values.size()) {
    for (const Binding& binding : function.body.bindings)
      for (const ValueId operand : binding.operands)
        if (operand != no_value) readers_[operand] = &binding;
  }

  bool run() {
    std::vector<Binding> made;
    bool changed = false;
    for (const Binding& binding : function_.body.bindings) {
      const bool written = ends_sum(binding) && write(binding, made);
      if (!written) made.push_back(binding);
      changed = changed || written;
    }
    if (!changed) return false;
    function_.body.bindings = std::move(made);
    return true;
  }

 private:
  // What is added up.
  struct Sum {
    std::vector<ConvolutionTerm> terms;
    std::vector<ValueId> others;
    std::vector<double> shift;  // by channel
  };
  // A convolution that stays, with what is added to its weight.
  struct Host {
    ConvolutionTerm term;
    std::vector<Part> parts;
  };

  const Dims& dims(ValueId value) const { return function_.tensor_type(value).dims; }

  bool is_read_once(ValueId value) const { return reads_[value] == 1; }

  // A sum of two values as large as itself, or of one and what is broadcast to it.
  const Binding* sum_of(ValueId value) const {
    const Binding* sum = graph_.applied(value, Op::add);
    return sum != nullptr &&
                   (dims(sum->operands[0]) == dims(value) || dims(sum->operands[1]) == dims(value))
               ? sum
               : nullptr;
  }

  // Whether it is a sum, and not one that is only added to something.
  bool ends_sum(const Binding& binding) const {
    if (binding.op != Op::add) return false;
    const ValueId sum = binding.results[0];
    const TensorType& type = function_.tensor_type(sum);
    if (type.dtype != DType::F32 || type.rank() < 3 || !type.dims[1].constant() ||
        sum_of(sum) == nullptr)
      return false;
    const Binding* reader = is_read_once(sum) ? readers_[sum] : nullptr;
    return reader == nullptr || reader->op != Op::add || dims(reader->results[0]) != type.dims;
  }

  void collect(ValueId value, Sum& sum, bool whole) const {
    const Binding* inner = whole || is_read_once(value) ? sum_of(value) : nullptr;
    if (inner != nullptr) {
      for (const ValueId operand : inner->operands) {
        if (dims(operand) == dims(value)) {
          collect(operand, sum, false);
        } else if (const auto numbers = number_by_channel(graph_, operand, dims(value).size(),
                                                          std::ssize(sum.shift))) {
          for (std::size_t i = 0; i < numbers->size(); ++i) sum.shift[i] += (*numbers)[i];
        } else {
          sum.others.push_back(operand);
        }
      }
      return;
    }
    auto term = term_of(value);
    if (term) sum.terms.push_back(std::move(*term));
    else sum.others.push_back(value);
  }

  // What only the sum reads, as a term; nullopt also for an image as it is, which costs no more
  // where it is added.
  std::optional<ConvolutionTerm> term_of(ValueId value) const {
    std::vector<const Binding*> outer;  // the last op first
    ValueId inner = value;
    for (;;) {
      const Binding* step = is_read_once(inner) ? graph_.definition(inner) : nullptr;
      if (step == nullptr || !is_by_channel(*step)) break;
      outer.push_back(step);
      inner = step->operands[varying(*step)];
    }
    auto term = convolution_term(graph_, inner);
    if (!term || (term->steps.empty() && outer.empty())) return std::nullopt;
    // What something else reads would be computed all the same.
    const auto once = [&](const Binding* step) { return is_read_once(step->results[0]); };
    if (!std::ranges::all_of(term->steps, once)) return std::nullopt;
    for (const Binding* step : outer | std::views::reverse) apply(*step, *term);
    return term;
  }

  // The operand that is no constant.
  std::size_t varying(const Binding& step) const {
    return stored_constant(graph_, step.operands[1]) != nullptr ? 0 : 1;
  }

  bool is_by_channel(const Binding& step) const {
    if (step.op != Op::add && step.op != Op::sub && step.op != Op::mul && step.op != Op::div)
      return false;
    const std::size_t from = varying(step);
    const Dims& all = dims(step.results[0]);
    const bool may_be_second = step.op == Op::add || step.op == Op::mul;
    return (from == 0 || may_be_second) && dims(step.operands[from]) == all &&
           number_by_channel(graph_, step.operands[1 - from], all.size(),
                             all[1].constant().value_or(0))
               .has_value();
  }

  void apply(const Binding& step, ConvolutionTerm& term) const {
    const auto numbers = *number_by_channel(graph_, step.operands[1 - varying(step)],
                                            dims(step.results[0]).size(), term.outputs);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (step.op == Op::add) term.shift[i] += numbers[i];
      if (step.op == Op::sub) term.shift[i] -= numbers[i];
      if (step.op == Op::mul) {
        term.scale[i] *= numbers[i];
        term.shift[i] *= numbers[i];
      }
      if (step.op == Op::div) {
        term.scale[i] /= numbers[i];
        term.shift[i] /= numbers[i];
      }
    }
  }

  // Those that nothing else lies around, the ones that read most first.
  static std::vector<Host> hosts_of(std::vector<ConvolutionTerm> terms) {
    std::ranges::sort(terms, std::greater<>(), [](const ConvolutionTerm& term) {
      return std::tuple(!term.steps.empty(), term.places(), term.channels / term.groups);
    });
    std::vector<Host> hosts;
    for (ConvolutionTerm& term : terms) {
      std::optional<Part> part;
      const auto host = std::ranges::find_if(hosts, [&](const Host& one) {
        part = one.term.steps.empty() ? std::nullopt : within(term, one.term);
        return part.has_value();
      });
      if (host != hosts.end()) {
        host->parts.push_back(std::move(*part));
        continue;
      }
      auto itself = within(term, term);
      hosts.push_back({std::move(term), {std::move(*itself)}});
    }
    return hosts;
  }

  // Whether the sum is written with fewer convolutions.
  bool write(const Binding& end, std::vector<Binding>& into) {
    const ValueId result = end.results[0];
    Sum sum;
    sum.shift.assign(static_cast<std::size_t>(*dims(result)[1].constant()), 0);
    collect(result, sum, true);
    const std::size_t terms = sum.terms.size();
    const std::vector<Host> hosts = hosts_of(std::move(sum.terms));
    if (hosts.size() == terms) return false;
    BindingWriter writer(function_, into, end.source, function_.values[result].name + "_sum");
    std::vector<ValueId> parts;
    for (const Host& host : hosts) {
      parts.push_back(host.term.steps.empty() ? scaled(host.term, dims(result).size(), writer)
                                              : convolved(host, writer));
      for (const Part& part : host.parts)
        for (std::size_t i = 0; i < sum.shift.size(); ++i) sum.shift[i] += part.term.shift[i];
    }
    parts.push_back(by_channel(sum.shift, dims(result).size(), writer));
    parts.insert(parts.end(), sum.others.begin(), sum.others.end());
    ValueId all = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i)
      all = writer.emit(Op::add, {all, parts[i]}, {}, i + 1 == parts.size() ? result : no_value);
    return true;
  }

  // [channels, 1...], with a dim for each place of a value of `rank`.
  static ValueId by_channel(const std::vector<double>& numbers, std::size_t rank,
                            BindingWriter& writer) {
    std::vector<std::int64_t> extents(rank - 1, 1);
    extents[0] = std::ssize(numbers);
    return writer.constant(
        Tensor::of<float>(DType::F32, std::move(extents), {numbers.begin(), numbers.end()}));
  }

  static ValueId scaled(const ConvolutionTerm& image, std::size_t rank, BindingWriter& writer) {
    return writer.emit(Op::mul, {image.image, by_channel(image.scale, rank, writer)});
  }

  ValueId convolved(const Host& host, BindingWriter& writer) const {
    const ValueId weight = host.term.steps[0]->operands[host.term.weight_operand];
    std::vector<std::int64_t> extents;
    for (const Dim& dim : dims(weight)) extents.push_back(*dim.constant());
    ValueId value = writer.constant({DType::F32, std::move(extents),
                                     std::make_shared<const SummedWeight>(host.term, host.parts)});
    std::size_t operand = host.term.weight_operand;
    for (const Binding* step : host.term.steps) {
      Binding again = *step;
      again.operands[operand] = value;
      again.results = {writer.new_value()};
      value = again.results[0];
      writer.push(std::move(again));
      operand = 0;
    }
    return value;
  }

  Function& function_;
  const PatternGraph graph_;
  std::vector<std::size_t> reads_;
  std::vector<const Binding*> readers_;  // by value: the last in the function's body
};

}  // namespace

void sum_convolutions(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return Rewriter(function).run(); });
}

}  // namespace anydim::passes
