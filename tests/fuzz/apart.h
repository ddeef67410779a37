// Work in a process of its own, which may crash or hang.
#pragma once

#include <functional>
#include <string>

namespace anydim::tests {

struct ApartResult {
  std::string said;   // what the work handed to `say`, put together
  std::string death;  // "signal 11", "exit code 1", "time limit"; empty: it returned
};
// Forks; nothing of ours may have started threads before. `seconds`: without a word for so long,
// the process is ended.
ApartResult run_apart(
    const std::function<void(const std::function<void(const std::string&)>& say)>& work,
    int seconds);

}  // namespace anydim::tests
