#include "ir/program.h"

namespace anydim::ir {

Program::Program() : functions(1) {}
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

}  // namespace anydim::ir
