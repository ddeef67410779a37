// Einsum as products of two operands at a time: sums over labels that nothing else needs, then one
// matmul over batches, rows, columns and the labels that both share.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// A letter, or the position of an ellipsis' dim counted from its end, from 256 on.
using Label = int;
using Labels = std::vector<Label>;

bool holds(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

struct Term {
  Value value = no_value;
  Labels labels;
};

class Einsum {
 public:
  explicit Einsum(Node& node) : node_(node), equation_(node.string("equation", "")) {
    std::erase(equation_, ' ');
  }

  Value run() {
    parse();
    Term result = prepared(0);
    for (std::size_t i = 1; i < terms_.size(); ++i) result = product(result, prepared(i), i);
    result = summed(std::move(result), [&](Label label) { return holds(output_, label); });
    return permuted(result, output_).value;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    node_.malformed("has equation = {}: {}", quoted_name(equation_), why);
  }

  Labels labels_of(std::string_view text, std::size_t ellipsis) const {
    Labels labels;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.substr(i).starts_with("...")) {
        for (std::size_t k = ellipsis; k-- > 0;) labels.push_back(256 + static_cast<int>(k));
        i += 2;
      } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
        labels.push_back(text[i]);
      } else {
        refuse(fmt::format("'{}' is no label", printable(text.substr(i, 1))));
      }
    }
    return labels;
  }

  void parse() {
    const std::size_t arrow = equation_.find("->");
    const std::string_view all(equation_);
    std::string_view left = all.substr(0, arrow);
    std::size_t widest = 0;
    for (std::size_t i = 0; i < node_.operand_count(); ++i) {
      const std::size_t comma = left.find(',');
      const std::string_view text = left.substr(0, comma);
      const Value value = node_.operand(i);
      const std::size_t rank = value.rank();
      const bool spread = text.find("...") != std::string_view::npos;
      const std::size_t letters = text.size() - (spread ? 3 : 0);
      if (letters > rank || (!spread && letters != rank))
        refuse(fmt::format("input {} has rank {}", i, rank));
      terms_.push_back({value, labels_of(text, rank - letters)});
      widest = std::max(widest, spread ? rank - letters : 0);
      if ((comma == std::string_view::npos) != (i + 1 == node_.operand_count()))
        refuse(fmt::format("it is for another number of inputs"));
      left = comma == std::string_view::npos ? std::string_view() : left.substr(comma + 1);
    }
    if (arrow != std::string::npos) output_ = labels_of(all.substr(arrow + 2), widest);
    else implied_output(widest);
    for (const Label label : output_) {
      const bool known =
          std::ranges::any_of(terms_, [&](const Term& term) { return holds(term.labels, label); });
      if (!known || std::ranges::count(output_, label) != 1)
        refuse("its output needs labels of the inputs, each once");
    }
  }

  // Without an arrow: the ellipsis, then every letter that stands once, in order.
  void implied_output(std::size_t widest) {
    output_ = labels_of("...", widest);
    std::map<Label, int> counts;
    for (const Term& term : terms_) {
      for (const Label label : term.labels) ++counts[label];
    }
    for (const auto& [label, count] : counts) {
      if (label < 256 && count == 1) output_.push_back(label);
    }
  }

  // A term whose labels differ, the repeated ones reduced to their diagonal.
  Term prepared(std::size_t position) {
    Term term = terms_[position];
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      for (std::size_t j = i + 1; j < term.labels.size();) {
        if (term.labels[i] != term.labels[j]) {
          ++j;
          continue;
        }
        term = diagonal(std::move(term), i, j);
      }
    }
    return term;
  }

  // Sums over axis j what lies off the diagonal of axes i and j replaced by 0.
  Term diagonal(Term term, std::size_t i, std::size_t j) {
    const std::size_t rank = term.labels.size();
    const auto along = [&](std::size_t axis) {
      Ints others;
      for (std::size_t k = 0; k < rank; ++k) {
        if (k != axis) others.push_back(static_cast<std::int64_t>(k));
      }
      return with_axes(positions(dim_of(term.value, static_cast<std::int64_t>(axis))), others);
    };
    const Value same = equal(along(i), along(j));
    const Value kept = where(same, term.value, 0);
    term.value = node_.emit(Op::reduce_sum, {kept}, {{"axes", Ints{static_cast<std::int64_t>(j)}}});
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(j));
    return term;
  }

  template <typename Keeps>
  Term summed(Term term, Keeps&& keeps) {
    Ints axes;
    Labels labels;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (keeps(term.labels[i])) labels.push_back(term.labels[i]);
      else axes.push_back(static_cast<std::int64_t>(i));
    }
    if (!axes.empty()) term.value = node_.emit(Op::reduce_sum, {term.value}, {{"axes", axes}});
    return {term.value, std::move(labels)};
  }

  Term permuted(const Term& term, const Labels& order) {
    Ints perm;
    for (const Label label : order)
      perm.push_back(std::ranges::find(term.labels, label) - term.labels.begin());
    if (std::ranges::is_sorted(perm)) return term;
    return {transpose(term.value, perm), order};
  }

  bool needed_after(Label label, std::size_t position) const {
    if (holds(output_, label)) return true;
    return std::any_of(terms_.begin() + static_cast<std::ptrdiff_t>(position) + 1, terms_.end(),
                       [&](const Term& term) { return holds(term.labels, label); });
  }

  Term product(Term a, Term b, std::size_t position) {
    const auto after = [&](Label label) { return needed_after(label, position); };
    a = summed(std::move(a), [&](Label label) { return holds(b.labels, label) || after(label); });
    b = summed(std::move(b), [&](Label label) { return holds(a.labels, label) || after(label); });
    Labels batch, rows, columns, shared;
    for (const Label label : a.labels) {
      if (!holds(b.labels, label)) rows.push_back(label);
      else (after(label) ? batch : shared).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!holds(a.labels, label)) columns.push_back(label);
    }
    const Value left = matrix(a, batch, rows, shared), right = matrix(b, batch, shared, columns);
    const Value multiplied = matmul(left, right);
    Values dims;
    // A batch dim of 1 takes the other operand's extent.
    for (std::size_t i = 0; i < batch.size(); ++i)
      dims.push_back(dim_of(multiplied, static_cast<std::int64_t>(i)));
    for (const Label label : rows) dims.push_back(dim(a, label));
    for (const Label label : columns) dims.push_back(dim(b, label));
    Labels labels = batch;
    labels.insert(labels.end(), rows.begin(), rows.end());
    labels.insert(labels.end(), columns.begin(), columns.end());
    if (dims.empty()) return {without_axes(multiplied, {0, 1}), {}};
    return {reshaped(multiplied, std::move(dims)), std::move(labels)};
  }

  Value dim(const Term& term, Label label) {
    return dim_of(term.value, std::ranges::find(term.labels, label) - term.labels.begin());
  }

  // [batch..., rows, columns], each of the last two the product of its labels' extents.
  Value matrix(const Term& term, const Labels& batch, const Labels& rows, const Labels& columns) {
    Labels order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    const Term arranged = permuted(term, order);
    if (rows.size() == 1 && columns.size() == 1) return arranged.value;
    Values dims;
    for (const Label label : batch) dims.push_back(dim(arranged, label));
    for (const Labels* group : {&rows, &columns}) {
      Value extent = node_.index_vector({1});
      for (const Label label : *group) extent = extent * dim(arranged, label);
      dims.push_back(extent);
    }
    return reshaped(arranged.value, std::move(dims));
  }

  Node& node_;
  std::string equation_;
  std::vector<Term> terms_;
  Labels output_;
};

}  // namespace

void import_einsum(Node& node) {
  node.check_same_dtypes();
  node.output(0, Einsum(node).run());
}

}  // namespace anydim::frontends
