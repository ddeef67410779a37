#include "tests/ptx/fixture.h"

#include <fmt/format.h>

namespace anydim::ptx::testing {

std::string kernel_text(std::string_view body, int pointers, std::string_view module_scope) {
  std::string parameters, loads;
  for (int i = 0; i < pointers; ++i) {
    parameters += fmt::format("{}\n  .param .u64 test_param_{}", i == 0 ? "" : ",", i);
    loads += fmt::format("  .reg .b64 p{0};\n  ld.param.u64 p{0}, [test_param_{0}];\n", i);
  }
  return fmt::format(
      ".version 9.0\n.target sm_90a\n.address_size 64\n{}\n.visible .entry test({}\n)\n{{\n"
      "  .reg .b32 %r<32>;\n  .reg .b64 %rd<32>;\n  .reg .f32 %f<32>;\n  .reg .f64 %fd<16>;\n  "
      ".reg .b16 %h<16>;\n  .reg .pred %q<16>;\n"
      "  .reg .b32 %t;\n  mov.u32 %t, %tid.x;\n{}\n{}\n  ret;\n}}\n",
      module_scope, parameters, loads, body);
}

}  // namespace anydim::ptx::testing
