#include "frontends/onnx/operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

constexpr Operator table[] = {
#define ANYDIM_ONNX_DOMAIN_OP(domain, name, first, last, fewest_inputs, most_inputs, most_outputs, \
                              elements, importer, ...)                                             \
  {domain,                                                                                         \
   #name,                                                                                          \
   first,                                                                                          \
   last,                                                                                           \
   fewest_inputs,                                                                                  \
   most_inputs,                                                                                    \
   most_outputs,                                                                                   \
   Elements::elements,                                                                             \
   [](Node& node) { import_##importer(node __VA_OPT__(, ir::Op::__VA_ARGS__)); }},
#define ANYDIM_ONNX_OP(...) ANYDIM_ONNX_DOMAIN_OP("", __VA_ARGS__)
#include "frontends/onnx_ops.def"

#include "frontends/onnx_domain_ops.def"
#undef ANYDIM_ONNX_DOMAIN_OP
#undef ANYDIM_ONNX_OP
};

}  // namespace

std::span<const Operator> all_operators() { return table; }

std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

void Opsets::set(std::string_view domain, int version) {
  versions_[std::string(canonical_domain(domain))] = version;
}

bool Opsets::names(std::string_view domain) const {
  return versions_.contains(canonical_domain(domain));
}

Opsets::Domain Opsets::of_node(std::string_view domain) const {
  if (const auto found = others_.find(domain); found != others_.end())
    return {found->second.first, found->second.second};
  const std::string_view name = canonical_domain(domain);
  // Tools leave out domains of which there is one version only.
  const auto found = versions_.find(name);
  return {name, found == versions_.end() ? 1 : found->second};
}

std::string Opsets::at_version(std::string_view domain, int version) {
  const Domain given = of_node(domain);
  if (given.version == version) return std::string(domain);
  std::string made = fmt::format("{}@{}", given.name, version);
  others_.try_emplace(made, given.name, version);
  return made;
}

const Operator* find_operator(std::string_view domain, std::string_view name, int opset) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const Operator& row) {
    return row.domain == domain && row.name == name && row.first_opset <= opset &&
           opset <= row.last_opset;
  });
  return found == std::end(table) ? nullptr : found;
}

bool contains(Elements elements, ir::DType dtype) {
  switch (elements) {
    case Elements::Any:
    case Elements::Lists: return true;
    case Elements::Number: return dtype != ir::DType::Bool;
    case Elements::Real: return ir::is_float(dtype);
    case Elements::Integer: return ir::is_integer(dtype);
    case Elements::Boolean: return dtype == ir::DType::Bool;
  }
  return false;
}

std::string_view name_of(Elements elements) {
  switch (elements) {
    case Elements::Any:
    case Elements::Lists: return "any elements";
    case Elements::Number: return "numbers";
    case Elements::Real: return "real numbers";
    case Elements::Integer: return "integers";
    case Elements::Boolean: return "booleans";
  }
  return "";
}

}  // namespace anydim::frontends
