#include "tests/ptx/mutation/mutator.h"

#include <charconv>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/ptx/mutation/statements.h"

namespace anydim::ptx {

namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  for (const std::string_view start : starts) {
    if (text.starts_with(start)) return true;
  }
  return false;
}

bool is_deleted(std::string_view opcode) {
  return starts_with_any(
      opcode, {"fence.", "membar.", "bar.", "barrier.", "mbarrier.arrive", "cp.async.commit_group",
               "cp.async.wait_", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
               "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "griddepcontrol.wait"});
}

bool is_mbarrier_wait(std::string_view opcode) {
  return starts_with_any(opcode, {"mbarrier.try_wait", "mbarrier.test_wait"});
}

class Mutator {
 public:
  explicit Mutator(std::string_view ptx) : statements_(statements_of(ptx)) {}

  std::vector<Mutant> mutants() {
    std::map<std::string, int> numbers;
    for (const Statement& statement : statements_) {
      statement_ = &statement;
      number_ = ++numbers[statement.opcode];
      deletions();
      parities();
      wait_counts();
      counts();
      multicasts();
      ranks();
      releases();
      descriptors();
      swizzles();
      comparisons();
    }
    return std::move(mutants_);
  }

 private:
  const std::vector<std::string>& operands() const { return statement_->operands; }

  void add(MutationKind kind, std::string_view what, std::string replacement) {
    mutants_.push_back({.name = fmt::format("{} {} #{}", what, statement_->opcode, number_),
                        .kind = kind,
                        .lines = {statement_->line},
                        .edits = {{statement_->begin, statement_->end, std::move(replacement)}}});
  }

  // The statement with one operand replaced.
  std::string with_operand(std::size_t index, std::string_view text) const {
    std::vector<std::string> changed = operands();
    changed[index] = text;
    return fmt::format("{}{} {};", statement_->guard, statement_->opcode, fmt::join(changed, ", "));
  }

  // The statement with the operand run through an instruction first: `operation` d, operand,
  // `argument`.
  std::string with_changed_operand(std::size_t index, std::string_view type,
                                   std::string_view operation, std::string_view argument) const {
    return fmt::format("{{ .reg .{} %mutated; {} %mutated, {}, {}; {} }}", type, operation,
                       operands()[index], argument, with_operand(index, "%mutated"));
  }

  void deletions() {
    if (is_deleted(statement_->opcode)) add(MutationKind::Delete, "delete", "");
    if (is_mbarrier_wait(statement_->opcode)) {
      add(MutationKind::Delete, "pass",
          fmt::format("{}setp.eq.u32 {}, 0, 0;", statement_->guard, operands()[0]));
    }
    if (statement_->opcode.starts_with("mbarrier.try_wait")) {
      add(MutationKind::Expiry, "believe",
          fmt::format("{{ {}{} {}; {}setp.eq.u32 {}, 0, 0; }}", statement_->guard,
                      statement_->opcode, fmt::join(operands(), ", "), statement_->guard,
                      operands()[0]));
    }
  }

  void parities() {
    if (is_mbarrier_wait(statement_->opcode) &&
        statement_->opcode.find(".parity") != std::string::npos) {
      add(MutationKind::Parity, "invert parity of", with_changed_operand(2, "b32", "xor.b32", "1"));
    }
  }

  void wait_counts() {
    if (!starts_with_any(statement_->opcode,
                         {"cp.async.wait_group", "cp.async.bulk.wait_group", "wgmma.wait_group"}))
      return;
    add(MutationKind::WaitCount, "wait for one less in",
        with_operand(0, fmt::format("{}", std::stoi(operands()[0]) + 1)));
  }

  void counts() {
    const std::string& opcode = statement_->opcode;
    if (opcode.find(".expect_tx") != std::string::npos) {
      const std::size_t count = operands().size() - 1;
      add(MutationKind::Transactions, "16 bytes more in",
          with_changed_operand(count, "b32", "add.u32", "16"));
      add(MutationKind::Transactions, "16 bytes fewer in",
          with_changed_operand(count, "b32", "add.u32", "-16"));
    } else if (opcode.starts_with("mbarrier.init")) {
      add(MutationKind::Arrivals, "one arrival more in",
          with_changed_operand(1, "b32", "add.u32", "1"));
      add(MutationKind::Arrivals, "one arrival fewer in",
          with_changed_operand(1, "b32", "add.u32", "-1"));
    } else if (starts_with_any(opcode,
                               {"bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive"}) &&
               operands().size() == 2) {
      add(MutationKind::Arrivals, "a warp more in",
          with_changed_operand(1, "b32", "add.u32", "32"));
      add(MutationKind::Arrivals, "a warp fewer in",
          with_changed_operand(1, "b32", "add.u32", "-32"));
    }
  }

  void multicasts() {
    if (statement_->opcode.find(".multicast::cluster") == std::string::npos) return;
    for (const char* block : {"1", "2"}) {
      add(MutationKind::Multicast, fmt::format("exchange bit {} of the blocks of", block),
          with_changed_operand(operands().size() - 1, "b16", "xor.b16", block));
    }
  }

  void ranks() {
    if (!statement_->opcode.starts_with("mapa.")) return;
    add(MutationKind::Rank, "exchange the block of",
        with_changed_operand(2, "b32", "xor.b32", "1"));
  }

  void releases() {
    const std::string& opcode = statement_->opcode;
    constexpr std::string_view release = ".release";
    const std::size_t at = opcode.find(release);
    if (at == std::string::npos ||
        !starts_with_any(opcode, {"barrier.cluster.arrive", "mbarrier.arrive"}))
      return;
    add(MutationKind::Release, "relax",
        fmt::format("{}{}.relaxed{} {};", statement_->guard, opcode.substr(0, at),
                    opcode.substr(at + release.size()), fmt::join(operands(), ", ")));
  }

  void descriptors() {
    if (!statement_->opcode.starts_with("wgmma.mma_async")) return;
    for (const std::size_t index : {1, 2}) {
      if (operands()[index].starts_with("{")) continue;
      const char* which = index == 1 ? "A" : "B";
      const auto change = [&](const char* what, const char* operation, const char* argument) {
        add(MutationKind::Descriptor, fmt::format("{} of {} in", what, which),
            with_changed_operand(index, "b64", operation, argument));
      };
      change("address", "xor.b64", "2");
      change("stride", "add.s64", "0x1000000000");
      change("swizzle", "xor.b64", "0x4000000000000000");
    }
  }

  void swizzles() {
    if (!starts_with_any(statement_->opcode, {"xor.b32", "xor.b64"})) return;
    add(MutationKind::Swizzle, "leave out",
        fmt::format("{}mov.{} {}, {};", statement_->guard, statement_->opcode.substr(4),
                    operands()[0], operands()[1]));
  }

  // Compilers write one comparison of the source more than once, also as its opposite (a < b here,
  // a >= b there): all change together.
  void comparisons() {
    const std::string& opcode = statement_->opcode;
    if (!opcode.starts_with("setp.") || opcode.find(".f") != std::string::npos ||
        opcode.find(".bf") != std::string::npos)
      return;
    const std::string relation = opcode.substr(5, 2);
    const bool below = relation == "lt" || relation == "le";
    if (!below && relation != "gt" && relation != "ge") return;
    const std::string ignoring = fmt::format("{}setp.{}.u32 {}, 0, 0;", statement_->guard,
                                             below ? "eq" : "ne", operands()[0]);
    const bool strict = relation == "lt" || relation == "ge";  // the bound itself lies outside
    const std::string key =
        fmt::format("{} {} {} {}", operands()[1], operands()[2], strict, opcode.substr(8));
    const auto [found, is_new] = compared_.try_emplace(key, mutants_.size());
    if (is_new) return add(MutationKind::Comparison, "ignore the bound of", ignoring);
    mutants_[found->second].lines.push_back(statement_->line);
    mutants_[found->second].edits.push_back({statement_->begin, statement_->end, ignoring});
  }

  std::map<std::string, std::size_t> compared_;  // which mutant
  std::vector<Statement> statements_;
  const Statement* statement_ = nullptr;
  int number_ = 0;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants_of(std::string_view ptx) { return Mutator(ptx).mutants(); }

std::string mutated(const Mutant& mutant, std::string_view ptx) {
  std::string text;
  std::size_t done = 0;
  for (const Edit& edit : mutant.edits) {
    text += fmt::format("{}{}", ptx.substr(done, edit.begin - done), edit.replacement);
    done = edit.end;
  }
  return text + std::string(ptx.substr(done));
}

}  // namespace anydim::ptx
