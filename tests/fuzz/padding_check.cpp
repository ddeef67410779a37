#include "tests/fuzz/padding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "api/model.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "runtime/packing.h"
#include "tests/fuzz/perturb.h"

namespace anydim::tests {

using namespace ir;

namespace {

constexpr double tolerance = 2e-3;
using Results = std::vector<Tensor>;

// Elements of a row of a result, of `rows` rows in all; nothing where the result has no rows.
std::optional<std::int64_t> row_width(const Tensor& result, std::int64_t rows) {
  const bool has_rows =
      result.rank() >= 2 && (result.dims()[0] == rows || (result.rank() == 3 && result.dims()[0] * result.dims()[1] == rows));
  return has_rows ? std::optional(result.elements() / rows) : std::nullopt;
}

// What differs between two calls' results, where rows take part; hidden rows of `got` must be 0 where `zeros`.
struct Comparison {
  const std::vector<bool>& hidden;
  bool zeros = false;
  bool finite_for_other = false;  // a number where a NaN or an infinity is wanted
  bool rows_only = false;         // results without rows are not compared
  std::size_t not_finite = 0;     // how often that was so

  std::string difference(const Results& got, const Results& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (got[i].dims() != wanted[i].dims()) return fmt::format("result {} has other dims", i);
      const auto row = row_width(wanted[i], static_cast<std::int64_t>(hidden.size()));
      if (!row && rows_only) continue;
      double scale = 1e-3;
      for (std::int64_t at = 0; at < wanted[i].elements(); ++at)
        if (std::isfinite(wanted[i].real_at(at))) scale = std::max(scale, std::abs(wanted[i].real_at(at)));
      for (std::int64_t at = 0; at < wanted[i].elements(); ++at) {
        const double g = got[i].real_at(at), w = wanted[i].real_at(at);
        if (row && hidden[static_cast<std::size_t>(at / *row)]) {
          if (zeros && g != 0) return fmt::format("result {} element {}: {} in a hidden row", i, at, g);
          continue;
        }
        if (std::isfinite(g) && !std::isfinite(w) && finite_for_other) {
          ++not_finite;
          continue;
        }
        const bool same =
            std::isfinite(g) && std::isfinite(w) ? std::abs(g - w) <= tolerance * scale : g == w || (std::isnan(g) && std::isnan(w));
        if (!same) return fmt::format("result {} element {}: {} for {}", i, at, g, w);
      }
    }
    return "";
  }
};

class Check {
 public:
  Check(const PaddingModel& model, std::uint64_t seed, const std::filesystem::path& cache) : model_(model), seed_(seed), cache_(cache) {}

  PaddingReport run() {
    try {
      module_ = parse(model_.text);
      compile();
      for (const PaddingCall& call : padding_calls(model_, seed_)) {
        ++report_.calls;
        std::string failure = failure_of(call);
        if (failure.empty()) continue;
        if (is_unstable(call)) {
          ++report_.unstable;
          continue;
        }
        report_.failure = fmt::format("{}: {}", call.kind, failure);
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
  }

  std::optional<Results> reference(const PaddingCall& call) const {
    try {
      return evaluate(module_, module_.functions[0], call.inputs);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Inputs) throw;
      return std::nullopt;
    }
  }

  // Rows of which the program says, or the model's author, that they are hidden; where neither does, those that it made 0.
  std::vector<bool> hidden_rows(const PaddingCall& call, const Results& got, const Results& wanted) const {
    const Tensor& mask = call.inputs[model_.mask];
    std::vector<bool> hidden(static_cast<std::size_t>(mask.elements()), false);
    const auto entry = [](const Tensor& from, std::int64_t at) {
      return is_float(from.dtype()) ? from.real_at(at) : static_cast<double>(from.integer_at(at));
    };
    const bool asked = program_->packing() && program_->packing()->mask == model_.mask;
    const Tensor truths = asked ? runtime::row_truths(*program_->packing(), mask) : mask;
    for (std::size_t at = 0; at < hidden.size(); ++at) {
      const auto place = static_cast<std::int64_t>(at);
      if (asked) hidden[at] = entry(truths, place) == static_cast<double>(1 - program_->packing()->kept);
      else if (model_.hidden_entry && call.zero_or_one && report_.hidden_rows_kept_because.empty())
        hidden[at] = entry(mask, place) == static_cast<double>(*model_.hidden_entry);
      else if (report_.hidden_rows_kept_because.empty())
        hidden[at] = is_zero_row(got, at, hidden.size()) && !is_zero_row(wanted, at, hidden.size());
    }
    return hidden;
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

  std::string failure_of(const PaddingCall& call) {
    const auto wanted = reference(call);
    if (!wanted) {
      try {
        context_->run(call.inputs);
      } catch (const Error&) {
        return "";
      }
      return "the evaluator refuses what the program computes";
    }
    const Results got = context_->run(call.inputs);
    const bool packed = context_->packed_rows().has_value(), proven = program_->packing().has_value();
    report_.packed_calls += packed ? 1 : 0;
    const std::vector<bool> hidden = hidden_rows(call, got, *wanted);
    const bool zeros = report_.hidden_rows_kept_because.empty();
    if (packed && call.zero_or_one && model_.hidden_entry) {
      const Tensor& mask = call.inputs[model_.mask];
      for (std::size_t at = 0; at < hidden.size(); ++at) {
        const auto place = static_cast<std::int64_t>(at);
        const bool meant = (is_float(mask.dtype()) ? mask.real_at(place) : static_cast<double>(mask.integer_at(place))) ==
                           static_cast<double>(*model_.hidden_entry);
        if (meant != hidden[at]) return fmt::format("hides other rows than meant: row {}", at);
      }
    }
    const bool any_hidden = std::ranges::find(hidden, true) != hidden.end();
    Comparison against_padded{.hidden = hidden, .zeros = zeros};
    if (proven && (call.zero_or_one || packed)) {
      if (!padded_) padded_.emplace(program_->padded());
      if (std::string found = against_padded.difference(padded_->run(call.inputs), got); !found.empty())
        return "padded against packed: " + found;
    }
    Comparison beside{.hidden = hidden, .zeros = zeros, .finite_for_other = any_hidden && proven};
    if (std::string found = beside.difference(got, *wanted); !found.empty()) {
      if (model_.loose && !found.ends_with("hidden row")) ++report_.unstable;
      else return (packed ? "packed against the evaluator: " : "padded against the evaluator: ") + found;
    }
    if (beside.not_finite > 0) ++report_.hidden_not_finite;
    if (!proven || (!call.zero_or_one && !packed)) return "";
    if (!any_hidden) return "";
    const PaddingCall changed = changed_rows(model_, call, hidden);
    // What reads the first row of a sequence reads a hidden one in calls that are not packed.
    Comparison alike{.hidden = hidden, .zeros = zeros, .rows_only = !packed};
    if (std::string found = alike.difference(context_->run(changed.inputs), got); !found.empty()) return "with other hidden rows: " + found;
    Comparison unchanged{.hidden = hidden, .finite_for_other = true, .rows_only = !packed};
    if (std::string found = unchanged.difference(*wanted, *reference(changed)); !found.empty() && beside.not_finite == 0 && !model_.loose)
      return "the evaluator with other hidden rows: " + found;
    return "";
  }

  bool is_unstable(const PaddingCall& call) const {
    const auto wanted = reference(call);
    if (!wanted) return false;
    RandomGraph graph{.module = module_, .calls = {call.inputs}};
    infer_types(graph.module);
    const std::vector<bool> none(static_cast<std::size_t>(call.inputs[0].elements()), false);
    // A mask's own arithmetic is exact, or the model means nothing.
    const Results changed = evaluate_perturbed(graph, 0, {Op::matmul, Op::attention, Op::layer_norm, Op::softmax, Op::reduce_sum});
    return changed.size() != wanted->size() || !Comparison{.hidden = none}.difference(changed, *wanted).empty();
  }

  const PaddingModel& model_;
  std::uint64_t seed_;
  std::filesystem::path cache_;
  Module module_;
  std::shared_ptr<const Model> program_;
  std::optional<ModelContext> context_;
  std::optional<runtime::Context> padded_;
  PaddingReport report_;
};

}  // namespace

PaddingReport check_padding(const PaddingModel& model, std::uint64_t seed, const std::filesystem::path& cache) {
  return Check(model, seed, cache).run();
}

}  // namespace anydim::tests
