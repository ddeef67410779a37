#include "ir/ops.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "ir/error.h"

namespace anydim::ir {

namespace {

using namespace traits;

constexpr OpInfo table[] = {
#define ANYDIM_OP(name, text, minimum, maximum, results, rule, evaluation, cost, traits,  \
                  attributes)                                                             \
  {Op::name,  text, minimum, maximum, results, Cost::cost, static_cast<unsigned>(traits), \
   attributes},
#include "ir/ops.def"
#undef ANYDIM_OP
};

constexpr std::size_t op_count = std::size(table);
constexpr std::string_view dynamic_prefix = "dyn.";

AttributeInfo::Kind kind_named(std::string_view text) {
  using Kind = AttributeInfo::Kind;
  if (text == "int") return Kind::Integer;
  if (text == "real") return Kind::Real;
  if (text == "string") return Kind::String;
  if (text == "ints") return Kind::Integers;
  if (text == "reals") return Kind::Reals;
  if (text == "dtype") return Kind::DType;
  if (text == "tensor") return Kind::Tensor;
  internal_error("an attribute in ir/ops.def has an unknown kind");
}

AttributeInfo parse_attribute(std::string_view text) {
  AttributeInfo attribute;
  const std::size_t colon = text.find(':');
  internal_check(colon != std::string_view::npos,
                 "an attribute in ir/ops.def is written name:kind");
  attribute.name = text.substr(0, colon);
  std::string_view kind = text.substr(colon + 1);
  if (const std::size_t equals = kind.find('='); equals != std::string_view::npos) {
    attribute.default_text = kind.substr(equals + 1);
    kind = kind.substr(0, equals);
  } else if (kind.ends_with('?')) {
    attribute.optional = true;
    kind.remove_suffix(1);
  }
  attribute.optional |= attribute.default_text.has_value();
  attribute.kind = kind_named(kind);
  return attribute;
}

std::vector<AttributeInfo> parse_attributes(std::string_view text) {
  std::vector<AttributeInfo> attributes;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    attributes.push_back(parse_attribute(text.substr(0, space)));
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
  }
  return attributes;
}

// What lookups need beyond the rows themselves; built once, on first use.
struct Index {
  std::map<std::string_view, Op> by_text;
  std::array<std::vector<AttributeInfo>, op_count> attributes;

  Index() {
    for (const OpInfo& row : table) {
      internal_check(by_text.emplace(row.text, row.op).second, "names in ir/ops.def are unique");
      attributes[static_cast<std::size_t>(row.op)] = parse_attributes(row.attributes);
    }
  }
};

const Index& index() {
  static const Index built;
  return built;
}

}  // namespace

const OpInfo& info(Op op) {
  internal_check(static_cast<std::size_t>(op) < op_count, "an op is a row of ir/ops.def");
  return table[static_cast<std::size_t>(op)];
}

std::span<const AttributeInfo> attributes_of(Op op) {
  return index().attributes[static_cast<std::size_t>(info(op).op)];
}

const AttributeInfo* find_attribute(Op op, std::string_view name) {
  const std::span<const AttributeInfo> all = attributes_of(op);
  const auto found = std::ranges::find(all, name, &AttributeInfo::name);
  return found == all.end() ? nullptr : &*found;
}

std::span<const OpInfo> all_ops() { return table; }

std::optional<Op> op_named(std::string_view text) {
  const auto found = index().by_text.find(text);
  if (found == index().by_text.end()) return std::nullopt;
  return found->second;
}

std::optional<Op> static_twin(Op op) {
  const std::string_view text = info(op).text;
  if (!text.starts_with(dynamic_prefix)) return std::nullopt;
  return op_named(text.substr(dynamic_prefix.size()));
}

std::optional<Op> dynamic_twin(Op op) {
  return op_named(std::string(dynamic_prefix) + std::string(info(op).text));
}

std::vector<AttributeInfo> literal_attributes(Op dynamic) {
  const std::optional<Op> fixed = static_twin(dynamic);
  internal_check(fixed.has_value(), "only dynamic ops take attributes as operands");
  std::vector<AttributeInfo> list;
  for (const AttributeInfo& attribute : attributes_of(*fixed))
    if (find_attribute(dynamic, attribute.name) == nullptr) list.push_back(attribute);
  return list;
}

std::size_t first_shape_operand(Op op) {
  const std::optional<Op> fixed = static_twin(op);
  internal_check(fixed.has_value(), "only dynamic ops have operands that decide shapes");
  return static_cast<std::size_t>(info(*fixed).maximum_operands);
}

}  // namespace anydim::ir
