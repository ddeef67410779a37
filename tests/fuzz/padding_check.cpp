#include "tests/fuzz/padding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <regex>
#include <utility>

#include "api/compile.h"
#include "api/model.h"
#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "passes/hide_rows.h"
#include "runtime/packing.h"
#include "tests/fuzz/perturb.h"

namespace anydim::tests {

using namespace ir;

namespace {

constexpr double plain_tolerance = 2e-3;
// Results may differ so much where a few numbers are rounded to the next of 255.
constexpr double rounding_tolerance = 3e-2;
// They may differ by so many times what other last places change.
constexpr double unsteady_factor = 64;
using Results = std::vector<Tensor>;

double entry_of(const Tensor& tensor, std::int64_t at) {
  return is_float(tensor.dtype()) ? tensor.real_at(at) : static_cast<double>(tensor.integer_at(at));
}

// Elements of a row of a result, of `rows` rows in all; nothing where the result has no rows.
std::optional<std::int64_t> row_width(const Tensor& result, std::int64_t rows) {
  const bool has_rows =
      result.rank() >= 2 && (result.dims()[0] == rows ||
                             (result.rank() == 3 && result.dims()[0] * result.dims()[1] == rows));
  return has_rows ? std::optional(result.elements() / rows) : std::nullopt;
}

std::optional<Results> evaluated(const Module& module, const std::vector<Tensor>& inputs) {
  try {
    return evaluate(module, module.functions[0], inputs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Inputs) throw;
    return std::nullopt;
  }
}

// The first `length` rows of a sequence.
Tensor cut(const Tensor& tensor, std::int64_t sequence, std::int64_t length) {
  std::vector<std::int64_t> dims = tensor.dims();
  const std::int64_t row = tensor.elements() / std::max<std::int64_t>(1, dims[0] * dims[1]),
                     first = sequence * dims[1] * row;
  dims[0] = 1;
  dims[1] = length;
  Tensor part(tensor.dtype(), dims);
  for (std::int64_t at = 0; at < part.elements(); ++at) {
    if (is_float(tensor.dtype())) part.set_real(at, tensor.real_at(first + at));
    else part.set_integer(at, tensor.integer_at(first + at));
  }
  return part;
}

// The model with attention op by op, each rounded to its dtype.
std::string spelled_out(const std::string& text) {
  const std::string fused =
      "%(\\w+) = attention\\(%(\\w+), %(\\w+), %(\\w+), %(\\w+)\\) \\{scale = ([0-9.]+)";
  static const std::regex plain(fused + "\\}"), capped(fused + ", softcap = ([0-9.]+)\\}");
  const std::string scores =
      "%$1_k = transpose(%$3) {perm = (0, 1, 3, 2)}\n  %$1_s = matmul(%$2, %$1_k)\n"
      "  %$1_n = constant(f32 () [$6])\n  %$1_m = mul(%$1_s, %$1_n)\n";
  const std::string cap =
      "  %$1_c = constant(f32 () [$7])\n  %$1_d = div(%$1_m, %$1_c)\n  %$1_t = tanh(%$1_d)\n"
      "  %$1_u = mul(%$1_t, %$1_c)\n";
  const std::string rest =
      ", %$5)\n  %$1_p = softmax(%$1_b) {axis = -1}\n  %$1 = matmul(%$1_p, %$4)";
  return std::regex_replace(std::regex_replace(text, plain, scores + "  %$1_b = add(%$1_m" + rest),
                            capped, scores + cap + "  %$1_b = add(%$1_u" + rest);
}

struct Comparison {
  double tolerance = plain_tolerance;
  const std::vector<bool>* hidden = nullptr;       // rows that are not compared
  bool finite_for_other = false;                   // a number may stand for NaN and infinity
  const std::vector<Results>* unsteady = nullptr;  // the wanted results with other last places
  // Results that will do as well, element by element, and the last of them with other last places.
  const std::vector<Results>* others = nullptr;
  const std::vector<Results>* others_unsteady = nullptr;
  std::size_t not_finite = 0;  // how often a number stood for NaN or infinity

  bool same(double got, double wanted, double scale, double spread) {
    if (std::isfinite(got) && !std::isfinite(wanted) && finite_for_other) {
      ++not_finite;
      return true;
    }
    if (std::isinf(spread)) return true;
    if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got);
    return got == wanted || std::abs(got - wanted) <= tolerance * scale + unsteady_factor * spread;
  }

  // By how much other last places change an element; infinity where they decide whether it is a
  // number.
  static double spread_of(const std::vector<Results>* unsteady, std::size_t result, std::int64_t at,
                          double wanted) {
    double spread = 0;
    if (unsteady == nullptr) return spread;
    for (const Results& changed : *unsteady) {
      const double other = changed[result].real_at(at);
      if (std::isnan(other) != std::isnan(wanted)) return std::numeric_limits<double>::infinity();
      if (!std::isnan(other) && other != wanted)
        spread = std::max(spread, std::abs(other - wanted));
    }
    return spread;
  }

  static double scale_of(const Tensor& result) {
    double scale = 1e-3;
    for (std::int64_t at = 0; at < result.elements(); ++at)
      if (std::isfinite(result.real_at(at))) scale = std::max(scale, std::abs(result.real_at(at)));
    return scale;
  }

  std::string difference(const Results& got, const Results& wanted, std::int64_t rows) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (got[i].dims() != wanted[i].dims()) return fmt::format("result {} has other dims", i);
      const auto row = row_width(wanted[i], rows);
      const double scale = scale_of(wanted[i]);
      std::vector<double> scales;
      for (const Results& other : others != nullptr ? *others : std::vector<Results>{})
        scales.push_back(scale_of(other[i]));
      for (std::int64_t at = 0; at < wanted[i].elements(); ++at) {
        if (hidden != nullptr && row && (*hidden)[static_cast<std::size_t>(at / *row)]) continue;
        const double g = got[i].real_at(at), w = wanted[i].real_at(at);
        bool fits = same(g, w, scale, spread_of(unsteady, i, at, w));
        for (std::size_t other = 0; other < scales.size() && !fits; ++other) {
          const double spread = spread_of(others_unsteady, i, at, others->back()[i].real_at(at));
          fits = same(g, (*others)[other][i].real_at(at), scales[other], spread);
        }
        if (fits) continue;
        return fmt::format("result {} element {}: {} for {}", i, at, g, w);
      }
    }
    return "";
  }
};

class Check {
 public:
  Check(const PaddingModel& model, std::uint64_t seed, const std::filesystem::path& cache)
      : model_(model), seed_(seed), cache_(cache) {}

  PaddingReport run() {
    try {
      module_ = parse(model_.text);
      compile();
      for (const PaddingCall& call : padding_calls(model_, seed_)) {
        ++report_.calls;
        unsteady_.reset();
        call_ = &call;
        used_unsteady_ = false;
        report_.failure = failure_of(call);
        report_.unsteady += used_unsteady_ ? 1 : 0;
        if (report_.failure.empty()) continue;
        report_.failure = fmt::format("{}: {}", call.kind, report_.failure);
        break;
      }
    } catch (const std::exception& error) {
      report_.failure = error.what();
    }
    return report_;
  }

 private:
  void compile() {
    CompileOptions options;
    options.keep_kernels = !cache_.empty();
    if (options.keep_kernels) options.cache_folder = cache_;
    options.background = false;
    options.threads = 1;
    options.masked_rows = MaskedRows::Zero;
    program_ = Model::compile(module_, options);
    report_.padded_because = program_->padded_because();
    report_.hidden_rows_kept_because = program_->hidden_rows_kept_because();
    context_.emplace(program_);
    if (proven()) report_.limited = program_->packing()->limited_inputs.empty() ? 0 : 1;
    report_.ranged = proven() && program_->packing()->ranges_of_kept_rows ? 1 : 0;
    documented_ = documented(module_, options);
    if (!model_.narrow) return;
    widened_ = parse(wide_text());
    widened_documented_ = documented(*widened_, options);
    widened_spelled_ = parse(spelled_out(wide_text()));
  }

  Module documented(const Module& module, const CompileOptions& options) const {
    const Module forked = module_at_fork(module, options);
    passes::HideOptions hidden =
        passes::hiding_like(passes::remove_padding(forked, passes::PackedForm::Zeroed));
    hidden.results = report_.hidden_rows_kept_because.empty();
    return passes::hide_rows(forked, hidden).module;
  }

  double tolerance() const { return model_.rounds ? rounding_tolerance : plain_tolerance; }
  bool proven() const { return program_->packing().has_value(); }
  std::int64_t rows(const PaddingCall& call) const { return call.inputs[model_.mask].elements(); }

  // Rows that the program leaves out, or would if the call's entries were all 0 or 1; none where it
  // knows no mask.
  std::vector<bool> hidden_rows(const PaddingCall& call) const {
    const Tensor& mask = call.inputs[model_.mask];
    std::vector<bool> hidden(static_cast<std::size_t>(mask.elements()), false);
    if (!proven() || program_->packing()->mask != model_.mask) return hidden;
    const Tensor truths = runtime::row_truths(*program_->packing(), mask);
    for (std::size_t at = 0; at < hidden.size(); ++at)
      hidden[at] = entry_of(truths, static_cast<std::int64_t>(at)) ==
                   static_cast<double>(1 - program_->packing()->kept);
    return hidden;
  }

  // Rows of which the documented model makes zeros though the model as it is does not: those of the
  // mask, where the program says of no mask which it is. Rows of equal entries are hidden together.
  std::optional<std::vector<bool>> zeroed_rows(const PaddingCall& call, const Results& documented,
                                               const Results& plain) const {
    const Tensor& mask = call.inputs[model_.mask];
    std::vector<bool> zeroed(static_cast<std::size_t>(mask.elements()), false);
    if (!report_.hidden_rows_kept_because.empty()) return zeroed;
    for (std::size_t at = 0; at < zeroed.size(); ++at)
      zeroed[at] = is_zero_row(documented, at, zeroed.size());
    for (std::size_t at = 0; at < zeroed.size(); ++at) {
      if (!zeroed[at] || is_zero_row(plain, at, zeroed.size())) continue;
      for (std::size_t other = 0; other < zeroed.size(); ++other)
        if (entry_of(mask, static_cast<std::int64_t>(other)) ==
                entry_of(mask, static_cast<std::int64_t>(at)) &&
            !zeroed[other])
          return std::nullopt;
    }
    return zeroed;
  }

  static bool is_zero_row(const Results& results, std::size_t row, std::size_t rows) {
    for (const Tensor& result : results) {
      const auto width = row_width(result, static_cast<std::int64_t>(rows));
      if (!width) continue;
      const std::int64_t first = static_cast<std::int64_t>(row) * *width;
      for (std::int64_t e = 0; e < *width; ++e)
        if (result.real_at(first + e) != 0) return false;
    }
    return true;
  }

  // The difference, first without and then with what other last places change.
  std::string difference(Comparison& comparison, const Results& got, const Results& wanted,
                         std::int64_t rows) {
    comparison.tolerance = tolerance();
    std::string found = comparison.difference(got, wanted, rows);
    if (found.empty()) return found;
    if (!unsteady_) unsteady_ = with_other_last_places(module_, model_.text, call_->inputs);
    std::vector<Results> wide;
    if (comparison.others != nullptr && !comparison.others->empty())
      wide = with_other_last_places(*widened_, wide_text(), widened(call_->inputs));
    comparison.not_finite = 0;
    comparison.unsteady = &*unsteady_;
    comparison.others_unsteady = &wide;
    found = comparison.difference(got, wanted, rows);
    comparison.unsteady = comparison.others_unsteady = nullptr;
    used_unsteady_ = used_unsteady_ || found.empty();
    return found;
  }

  // As evaluated with results of ops that round a little off, and with attention op by op, each
  // rounded to its dtype, and at once. A mask's own arithmetic is exact, or the model means
  // nothing.
  static std::vector<Results> with_other_last_places(const Module& module, const std::string& text,
                                                     const std::vector<Tensor>& inputs) {
    RandomGraph graph{.module = parse(spelled_out(text)), .calls = {inputs}};
    infer_types(graph.module);
    std::vector<Results> changed{evaluate(graph.module, graph.module.functions[0], inputs)};
    const Module fused_module = module_at_fork(module);
    changed.push_back(evaluate(fused_module, fused_module.functions[0], inputs));
    changed.push_back(
        evaluate_perturbed(graph, 0, {Op::matmul, Op::layer_norm, Op::softmax, Op::reduce_sum}));
    return changed;
  }

  std::string failure_of(const PaddingCall& call) {
    const auto plain = evaluated(module_, call.inputs);
    if (!plain) {
      try {
        context_->run(call.inputs);
      } catch (const Error&) {
        return "";
      }
      return "the evaluator refuses what the program computes";
    }
    const Results got = context_->run(call.inputs);
    const bool packed = context_->packed_rows().has_value();
    report_.packed_calls += packed ? 1 : 0;
    const std::vector<bool> hidden = hidden_rows(call);
    if (std::string found = other_rows_than_meant(call, hidden, packed); !found.empty())
      return found;
    if (packed) {
      if (!padded_) padded_.emplace(program_->padded());
      Comparison against;
      if (std::string found = difference(against, padded_->run(call.inputs), got, rows(call));
          !found.empty())
        return "padded against packed: " + found;
    }
    if (std::string found = beside_evaluator(call, got, *plain, hidden, packed); !found.empty())
      return (packed ? "packed against " : "padded against ") + found;
    if (!proven() || !is_clean(call) || std::ranges::find(hidden, true) == hidden.end()) return "";
    return with_changed_rows(call, got, hidden, packed);
  }

  // The way of docs/architecture.md: nothing of hidden rows reaches others.
  bool is_clean(const PaddingCall& call) const {
    const runtime::Packing& packing = *program_->packing();
    for (const std::size_t input : packing.limited_inputs)
      for (std::int64_t at = 0; at < call.inputs[input].elements(); ++at)
        if (!(std::abs(call.inputs[input].real_at(at)) <= packing.input_limit)) return false;
    return call.zero_or_one || !packing.question.steps.empty();
  }

  static bool is_finite(const PaddingCall& call) {
    return std::ranges::all_of(call.inputs, [](const Tensor& input) {
      for (std::int64_t at = 0; is_float(input.dtype()) && at < input.elements(); ++at)
        if (!std::isfinite(input.real_at(at))) return false;
      return true;
    });
  }

  std::string other_rows_than_meant(const PaddingCall& call, const std::vector<bool>& hidden,
                                    bool packed) const {
    if (!packed || !call.zero_or_one || !model_.hidden_entry) return "";
    for (std::size_t at = 0; at < hidden.size(); ++at) {
      const double entry = entry_of(call.inputs[model_.mask], static_cast<std::int64_t>(at));
      if ((entry == static_cast<double>(*model_.hidden_entry)) != hidden[at])
        return fmt::format("hides other rows than meant: row {}", at);
    }
    return "";
  }

  std::string beside_evaluator(const PaddingCall& call, const Results& got, const Results& plain,
                               const std::vector<bool>& hidden, bool packed) {
    if (model_.wraps_sizes && !packed)
      return "";  // the model's arithmetic on sizes wraps, and the program's is exact
    const auto documented = evaluated(documented_, call.inputs);
    if (!documented) return "the evaluator: the documented model is refused";
    const auto zeroed = zeroed_rows(call, *documented, plain);
    if (!zeroed) return "the evaluator: rows of equal entries are not hidden together";
    if (!model_.wraps_sizes) {
      Comparison everywhere;
      const std::vector<Results> wide = widened_ ? in_f32(call) : std::vector<Results>{};
      everywhere.others = &wide;
      if (std::string found = difference(everywhere, got, *documented, rows(call)); !found.empty())
        return "the documented model: " + found;
      const bool any_hidden = std::ranges::find(hidden, true) != hidden.end();
      Comparison as_is{.hidden = &*zeroed,
                       .finite_for_other = any_hidden && proven() && is_clean(call)};
      const bool others = report_.ranged != 0 || (model_.eight_bits && !is_finite(call));
      if (!(others && as_is.finite_for_other))
        if (std::string found = difference(as_is, *documented, plain, rows(call)); !found.empty())
          return "the model: " + found;
      report_.hidden_not_finite += as_is.not_finite > 0 ? 1 : 0;
    }
    return packed ? beside_cut_sequences(call, got, hidden) : "";
  }

  // Results of the model that computes in f32 where the tested one does in f16 and bf16.
  std::vector<Results> in_f32(const PaddingCall& call) const {
    const std::vector<Tensor> inputs = widened(call.inputs);
    std::vector<Results> found;
    for (const Module* module : {&*widened_documented_, &*widened_spelled_})
      if (auto results = evaluated(*module, inputs)) found.push_back(std::move(*results));
    return found;
  }

  std::string wide_text() const {
    return std::regex_replace(model_.text, std::regex("\\bb?f16\\b"), "f32");
  }

  static std::vector<Tensor> widened(std::vector<Tensor> inputs) {
    for (Tensor& input : inputs)
      if (is_float(input.dtype()) && input.dtype() != DType::F64) input = widened(input);
    return inputs;
  }

  static Tensor widened(const Tensor& input) {
    Tensor wide(DType::F32, input.dims());
    for (std::int64_t at = 0; at < input.elements(); ++at) wide.set_real(at, input.real_at(at));
    return wide;
  }

  // Each sequence alone, without its hidden rows.
  std::string beside_cut_sequences(const PaddingCall& call, const Results& got,
                                   const std::vector<bool>& hidden) {
    const Tensor& mask = call.inputs[model_.mask];
    const std::int64_t batch = mask.dims()[0], length = mask.dims()[1];
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto first = hidden.begin() + b * length;
      lengths.push_back(std::find(first, first + length, true) - first);
      if (std::find(first + lengths.back(), first + length, false) != first + length) return "";
    }
    if (model_.narrow || model_.wraps_sizes || model_.reads_length) return "";
    ++report_.cut_calls;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t kept = lengths[static_cast<std::size_t>(b)];
      if (kept == 0) continue;
      std::vector<Tensor> inputs;
      for (const Tensor& input : call.inputs) inputs.push_back(cut(input, b, kept));
      const auto wanted = evaluated(module_, inputs);
      if (!wanted) return "cut sequences: the evaluator refuses them";
      Results here;
      if (report_.ranged != 0) {
        std::vector<Tensor> padded;
        for (const Tensor& input : call.inputs) padded.push_back(cut(input, b, length));
        for (const Tensor& result : context_->run(padded))
          here.push_back(part_of(result, 0, kept, padded[model_.mask].dims()));
      } else {
        for (const Tensor& result : got) here.push_back(part_of(result, b, kept, mask.dims()));
      }
      Comparison comparison{.tolerance = tolerance()};
      std::string found = comparison.difference(here, *wanted, kept);
      if (found.empty()) continue;
      const std::vector<Results> unsteady = with_other_last_places(module_, model_.text, inputs);
      comparison.unsteady = &unsteady;
      found = comparison.difference(here, *wanted, kept);
      used_unsteady_ = true;
      if (!found.empty()) return fmt::format("sequence {} cut to {} rows: {}", b, kept, found);
    }
    return "";
  }

  // What a result says of the first `kept` rows of a sequence, as a call with this sequence alone
  // gives it.
  static Tensor part_of(const Tensor& result, std::int64_t sequence, std::int64_t kept,
                        const std::vector<std::int64_t>& mask) {
    const std::int64_t batch = mask[0], length = mask[1];
    const auto width = row_width(result, batch * length);
    const std::int64_t each = result.elements() / batch;
    std::vector<std::int64_t> dims = result.dims();
    dims[0] = 1;
    if (width && result.dims()[0] == batch * length) dims[0] = kept;
    else if (width) dims[1] = kept;
    Tensor part(result.dtype(), dims);
    for (std::int64_t at = 0; at < part.elements(); ++at)
      part.set_real(at, result.real_at(sequence * each + at));
    return part;
  }

  std::string with_changed_rows(const PaddingCall& call, const Results& got,
                                const std::vector<bool>& hidden, bool packed) {
    const PaddingCall changed = changed_rows(model_, call, hidden);
    if (!is_clean(changed) || (!packed && program_->packing()->leading_rows))
      return "";  // hidden rows before others are counted
    const Results others = context_->run(changed.inputs);
    // A model that reads the first row of each sequence, or rows by their numbers, reads a hidden
    // one in calls that are not packed.
    const bool reads_hidden =
        !packed && (program_->packing()->first_rows || program_->packing()->counts_hidden_picks);
    Comparison alike;
    const auto same = [&](const Results& a, const Results& b, Comparison& comparison) {
      Results left, right;
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (reads_hidden && !row_width(a[i], rows(call))) continue;
        left.push_back(a[i]);
        right.push_back(b[i]);
      }
      return left.size() == a.size() ? difference(comparison, left, right, rows(call))
                                     : comparison.difference(left, right, rows(call));
    };
    if (std::string found = same(others, got, alike); !found.empty())
      return "with other hidden rows: " + found;
    const auto documented = evaluated(documented_, call.inputs),
               documented_others = evaluated(documented_, changed.inputs);
    if (!documented || !documented_others) return "with other hidden rows: refused";
    Comparison unchanged;
    if (std::string found = same(*documented_others, *documented, unchanged); !found.empty())
      return "the documented model with other hidden rows: " + found;
    return "";
  }

  const PaddingModel& model_;
  std::uint64_t seed_;
  std::filesystem::path cache_;
  Module module_, documented_;
  // f32 for f16 and bf16
  std::optional<Module> widened_, widened_documented_, widened_spelled_;
  std::shared_ptr<const Model> program_;
  std::optional<ModelContext> context_;
  std::optional<runtime::Context> padded_;
  const PaddingCall* call_ = nullptr;
  std::optional<std::vector<Results>> unsteady_;  // of the call
  bool used_unsteady_ = false;
  PaddingReport report_;
};

}  // namespace

PaddingReport check_padding(const PaddingModel& model, std::uint64_t seed,
                            const std::filesystem::path& cache) {
  return Check(model, seed, cache).run();
}

}  // namespace anydim::tests
