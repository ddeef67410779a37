// Parts of the text form that stand alone in tests only.
#pragma once

#include <string_view>

#include "ir/text/parse_dim.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {

// A dim over any symbols, without value(...) and `?`.
inline Dim parse_dim(std::string_view text) {
  TokenStream tokens(text, "dim");
  DimScope scope;
  scope.symbol = [](const Token& token) { return Dim::symbol(token.text); };
  const Dim dim = read_dim(tokens, scope);
  if (tokens.peek().kind != TokenKind::End) tokens.expected("the end of the dim");
  return dim;
}

// A tensor without references to files: `f32 (2, 3) [1, 2, 3, 4, 5, 6]`, also with `=` before the
// elements.
inline Tensor parse_tensor(std::string_view text) {
  TokenStream tokens(text, "tensor");
  Tensor tensor = read_tensor(tokens, {}, {});
  if (tokens.peek().kind != TokenKind::End) tokens.expected("the end of the tensor");
  return tensor;
}

}  // namespace anydim::ir
