// Pieces of text that encoders with a mask are written of.
#pragma once

#include <string>

namespace anydim::passes {

// Positions of rows and keys, as %i (s, 1) and %j (1, s), and numbers.
inline const std::string positions = R"(
  %ns = dim(s)
  %begin = constant(i64 () [0])
  %step = constant(i64 () [1])
  %range = dyn.arange(%begin, %ns, %step)
  %i = expand_dims(%range) {axes = (1)}
  %j = expand_dims(%range) {axes = (0)}
)";
inline const std::string numbers = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %mb = cast(%m4) {to = bool}
  %zero = constant(f32 () [0])
  %one = constant(f32 () [1])
  %low = constant(f32 () [-3.4028234663852886e38])
  %never = constant(f32 () [-inf])
)";
inline const std::string added = R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%one, %real)
  %padding = mul(%off, %low)
)";

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace anydim::passes
