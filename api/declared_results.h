// What a model says of its results' extents and inference could neither prove nor refute: held
// against the results of calls.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/inputs.h"
#include "ir/module.h"

namespace anydim {

// Shared between threads.
class DeclaredResults {
 public:
  using Hints = std::map<std::string, ir::TensorType>;  // by result
  // `entry` is the entry function before inference, where declarations are hints
  // (ir::Value::declared).
  static Hints hints_of(const ir::Function& entry);

  // `found`: the function after inference.
  DeclaredResults(const Hints& said, const ir::Function& found);

  // Warns, once for each result, where a call's extents are not what is said of them; those that
  // neither a number nor an input tells are not looked at.
  void check(const std::vector<InputInfo>& inputs, const std::vector<ir::Tensor>& given,
             const std::vector<ir::Tensor>& results,
             const std::function<void(const std::string&)>& warn) const;

 private:
  struct Said {
    std::size_t result = 0;
    std::string name;
    ir::TensorType type;
  };
  std::vector<Said> said_;
  std::unique_ptr<std::atomic<bool>[]> warned_;  // of each of said_
};

}  // namespace anydim
