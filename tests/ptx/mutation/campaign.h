// Runs a kernel on every mutant of its PTX and says which of them nothing noticed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/ptx/interpreter.h"
#include "tests/ptx/mutation/mutator.h"

namespace anydim::ptx {

struct MutationCase {
  std::string name;
  std::string ptx;
  // Runs the kernel once, or over several sizes that together reach all of its code. Empty where
  // results and findings are as they should be; else what is wrong. Called from several threads at
  // once.
  std::function<std::string(const Module&, const MachineOptions&)> run;
  // About how many warp instructions a run has; mutants that take four times as many count as
  // caught.
  std::uint64_t instructions = 0;
};

struct Survivor {
  std::string name;  // Mutant::name
  int line = 0;
};

struct MutationResult {
  std::string baseline;  // what is wrong with the kernel as it is; the rest is empty then
  std::size_t mutants = 0;
  // mutants of instructions that no run of the case reaches; not among `mutants`
  std::size_t unreached = 0;
  std::vector<Survivor> survivors;
};

// Every mutant under all timings until one of them fails; `threads` at a time.
MutationResult run_mutants(const MutationCase& mutation_case, int threads);

// Survivors of a file with lines "case: mutant: reason"; '#' starts a comment. reasons[mutant] for
// one case.
std::vector<std::pair<std::string, std::string>> listed_survivors(const std::string& path,
                                                                  const std::string& case_name);

// Compares with the file: empty, or what differs: a survivor that isn't listed, a listed mutant
// that was caught or isn't there, a reason that is missing. With ANYDIM_UPDATE_TESTS set the case's
// lines are rewritten first; reasons are kept.
std::string compare_survivors(const MutationResult& result, const std::string& path,
                              const std::string& case_name);

}  // namespace anydim::ptx
