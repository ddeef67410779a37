#include "passes/require_static.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "ir/error.h"

namespace anydim::passes {

using namespace ir;

namespace {

// `by_data`: no shape of an input would help.
[[noreturn]] void refuse(const std::string& what, bool by_data = false) {
  throw Error(ErrorKind::Unsupported,
              "the graph executor takes static programs only: {}; {}use --executor vm", what,
              by_data ? "" : "give every input's shape, or ");
}

class Gate {
 public:
  explicit Gate(const Program& program)
      : program_(program), sizes_(static_cast<std::size_t>(program.entry().slots)) {
    for (std::size_t slot = 0; slot < program.entry().leaf_symbols.size(); ++slot)
      sizes_[slot] = Dim::symbol(
          program.entry().leaf_symbols[slot].empty() ? "?" : program.entry().leaf_symbols[slot]);
    for (const Program::Stage* stage : entry_stages())
      for (std::size_t i = 0; i < stage->shapes.expressions.size(); ++i)
        sizes_[static_cast<std::size_t>(stage->first) + i] = stage->shapes.expressions[i];
  }

  void run() const {
    std::string fetched;  // why sizes after it are not known
    for (const Code::Instruction& instruction : program_.entry().instructions) {
      if (const auto* launch = std::get_if<Code::Launch>(&instruction)) {
        need_constant(*launch, fetched);
      } else if (const auto* fetch = std::get_if<Code::Fetch>(&instruction)) {
        const std::string& name =
            program_.entry().buffers[static_cast<std::size_t>(fetch->buffer)].name;
        if (fetched.empty())
          fetched =
              fmt::format("element {} of %{} decides sizes or branches", fetch->element, name);
      } else if (const auto* check = std::get_if<Code::Assert>(&instruction)) {
        refuse(check->source + " depends on the values of tensors", true);
      } else if (!std::holds_alternative<Code::RunStage>(instruction)) {
        refuse("it has control flow" + source_of(instruction) +
                   (fetched.empty() ? "" : ": " + fetched),
               true);
      }
    }
    if (!fetched.empty()) refuse(fetched, true);
    for (const Code::Output& output : program_.entry().outputs)
      for (const Code::Slot slot : output.dims)
        if (!size(slot).is_constant())
          refuse(fmt::format("output '{}' has dims ({})", output.name, texts(output.dims)));
    for (const Program::Stage* stage : entry_stages())
      for (const Program::Check& check : stage->checks)
        if (!size(check.left).is_constant() || !size(check.right).is_constant())
          refuse(check.what + " is checked at run time");
  }

 private:
  // Other functions, which nothing calls in a static program, have stages and slots of their own.
  std::vector<const Program::Stage*> entry_stages() const {
    std::vector<const Program::Stage*> stages;
    for (const Code::Instruction& instruction : program_.entry().instructions)
      if (const auto* run = std::get_if<Code::RunStage>(&instruction))
        stages.push_back(&program_.stages[static_cast<std::size_t>(run->stage)]);
    return stages;
  }

  const Dim& size(Code::Slot slot) const { return sizes_[static_cast<std::size_t>(slot)]; }

  std::string texts(const std::vector<Code::Slot>& slots) const {
    std::vector<std::string> list;
    for (const Code::Slot slot : slots) list.push_back(size(slot).to_string());
    return fmt::format("{}", fmt::join(list, ", "));
  }

  void need_constant(const Code::Launch& launch, const std::string& fetched) const {
    const Region& region = program_.kernels[static_cast<std::size_t>(launch.kernel)].region;
    bool constant = true;
    for (const Code::Slot slot : launch.extents) constant = constant && size(slot).is_constant();
    if (constant) return;
    std::vector<std::string> list;
    for (std::size_t i = 0; i < launch.extents.size(); ++i)
      list.push_back(fmt::format("{} = {}", region.body.symbols.names()[i],
                                 size(launch.extents[i]).to_string()));
    const std::string node = launch.source.empty() ? "" : fmt::format(" '{}'", launch.source);
    const std::string dims =
        fmt::format("{}{} has dims {}", region.name, node, fmt::join(list, ", "));
    refuse(fetched.empty() ? dims : fmt::format("{}, so {}", fetched, dims), !fetched.empty());
  }

  static std::string source_of(const Code::Instruction& instruction) {
    return std::visit(
        [](const auto& step) -> std::string {
          if constexpr (requires { step.source; }) return ", " + step.source;
          return "";
        },
        instruction);
  }

  const Program& program_;
  std::vector<Dim> sizes_;
};

}  // namespace

void require_static(const Program& program) { Gate(program).run(); }

}  // namespace anydim::passes
