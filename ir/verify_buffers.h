// Checks that buffers of a program hold what its instructions and outputs touch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace anydim::ir {

// The slots of one function as expressions over those that no stage fills, which are symbols named
// "s3".
class SlotExpressions {
 public:
  // The program's numbers are in range (ir/verify_program.h).
  SlotExpressions(const Program& program, const Code& code);

  // Why it may reach behind the end of a buffer of a known size: that of an input, of a constant,
  // or of what a stage has sized. Nothing where it does not, whatever the slots hold, and of
  // objects and of buffers that grow or are moved, whose sizes only the run knows.
  std::optional<std::string> overrun(const Code::Launch& launch) const;
  std::optional<std::string> overrun(const Code::Output& output) const;
  std::optional<std::string> overrun(const Code::Fetch& fetch) const;
  std::optional<std::string> overrun(const Code::StoreScalar& store) const;

 private:
  void add(const Program::Stage& stage);
  Dim value(Code::Slot slot) const;
  std::optional<Dim> bytes_of(std::int32_t buffer) const;
  std::optional<std::string> overrun(std::int32_t buffer, const Dim& touched,
                                     std::string_view by) const;

  const Program& program_;
  const Code& code_;
  SymbolTable symbols_;
  std::map<std::string, Dim> inputs_;  // what symbols of inputs are
  std::map<Code::Slot, Dim> filled_;
  std::vector<bool> resized_;  // buffers that grow, or refer to something else in time
};

}  // namespace anydim::ir
