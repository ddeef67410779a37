// What anydim.Model is made of.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/arrays.h"
#include "python/src/cache.h"
#include "python/src/engine.h"

namespace anydim::python {

// Any thread. Methods throw CallError{ClosedError} after close(), CallError{ForkedError} in a
// forked child.
class CompiledModel {
 public:
  // `source`: a path as str, or bytes, whose files lie in `folder`.
  CompiledModel(nanobind::object source, const std::optional<std::string>& folder,
                const Words& options, int level);
  ~CompiledModel();
  CompiledModel(const CompiledModel&) = delete;
  CompiledModel& operator=(const CompiledModel&) = delete;

  // `inputs`: a mapping of names to arrays. `out`: None, or a mapping of names of results to arrays
  // that they are written to. A dict of all results.
  // `cache`: null, or what is appended to. `stream`: None, or what stream_of() takes; then results
  // are on the device but for NumPy's.
  nanobind::object run(nanobind::handle inputs, nanobind::handle out, Cache* cache,
                       std::string_view arrays, nanobind::handle stream,
                       std::shared_ptr<Cancellation> cancellation);
  // `ids`: as `inputs`, or the one array where the model has one. `offsets`: i64 of rank 1.
  nanobind::object run_ragged(nanobind::handle ids, nanobind::handle offsets, nanobind::handle out,
                              std::string_view arrays, nanobind::handle stream,
                              std::shared_ptr<Cancellation> cancellation);
  void synchronize();  // waits for calls on streams
  void retune();       // reads the tuning database again
  void close();        // also in a forked child
  bool closed() const { return engine_ == nullptr; }
  std::shared_ptr<Engine> engine() const;

 private:
  using Names = std::vector<nanobind::object>;  // interned
  struct Given;
  static Given gather(Engine& engine, const std::vector<InputInfo>& wanted, const Names& names,
                      nanobind::handle given, OnDevice& device);
  struct Places;
  struct Way;
  static Places places_of(const std::vector<std::string>& results, nanobind::handle out, Way& way);
  static Way way_of(const Engine& engine, std::string_view arrays, nanobind::handle stream);
  static nanobind::object results_of(const Names& names, std::vector<ir::Tensor> results,
                                     const Places& places, const Way& way);

  // What calls are given and give.
  struct Signature {
    std::vector<InputInfo> inputs;
    std::vector<std::string> outputs;
    Names input_names, output_names;
    Signature() = default;
    Signature(std::vector<InputInfo> wanted, const std::vector<InputInfo>& given);
  };

  std::shared_ptr<Engine> engine_;
  Signature signature_, beside_cache_;  // of all; without what is appended to
};

}  // namespace anydim::python
