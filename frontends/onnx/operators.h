// The tables of ONNX operators (frontends/onnx_ops.def and onnx_domain_ops.def) as data.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ir/type.h"

namespace anydim::frontends {

class Node;

// Versions of the domain ai.onnx that are read.
inline constexpr int first_opset = 1;
inline constexpr int last_opset = 28;

// "" for "ai.onnx", which is the same domain.
std::string_view canonical_domain(std::string_view domain);

// The versions of domains: those that a model names, one for each, and others that bodies of its
// functions name.
class Opsets {
 public:
  struct Domain {
    std::string_view name;  // canonical
    int version = 1;
  };
  void set(std::string_view domain, int version);  // the model's
  bool names(std::string_view domain) const;
  // What the domain of a node means.
  Domain of_node(std::string_view domain) const;
  // What a node is to have as its domain for its operator to be of that version; of_node() knows it
  // from then on.
  std::string at_version(std::string_view domain, int version);

 private:
  std::map<std::string, int, std::less<>> versions_;
  std::map<std::string, std::pair<std::string, int>, std::less<>> others_;  // by what nodes have
};

// Sets of element types. Lists: any, and sequences and optionals beside tensors.
enum class Elements { Any, Number, Real, Integer, Boolean, Lists };

struct Operator {
  std::string_view domain;  // "" for ai.onnx
  std::string_view name;
  int first_opset;
  int last_opset;
  int minimum_inputs;
  int maximum_inputs;   // -1: any number
  int maximum_outputs;  // -1: any number
  Elements elements;    // of the first input
  void (*import)(Node&);
};

std::span<const Operator> all_operators();
// Null where the tables have no row for the name in that version of the domain, which is canonical.
const Operator* find_operator(std::string_view domain, std::string_view name, int opset);

bool contains(Elements elements, ir::DType dtype);
std::string_view name_of(Elements elements);

}  // namespace anydim::frontends
