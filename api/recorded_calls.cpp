#include "api/recorded_calls.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>
#include <string>
#include <system_error>

#include "api/npy.h"
#include "api/output_files.h"
#include "api/recording.h"
#include "api/tuning_run.h"

namespace anydim {

namespace {

namespace fs = std::filesystem;

std::string call_name(const std::vector<InputInfo>& inputs,
                      const std::vector<ir::Tensor>& tensors) {
  std::string hashes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto bytes = tensors[i].bytes();
    hashes += npy_header(tensors[i]) +
              tuner::text_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) +
              inputs[i].name;
  }
  return tuner::text_hash(hashes);
}

// By name; half-written ones begin with a dot.
std::vector<fs::path> calls_in(const fs::path& folder) {
  std::error_code fault;
  std::set<fs::path> calls;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, fault))
    if (entry.is_directory(fault) && !entry.path().filename().string().starts_with('.'))
      calls.insert(entry.path());
  return {calls.begin(), calls.end()};
}

// Rows of each sequence that take part.
std::vector<std::int64_t> lengths_of(const runtime::Packing& packing,
                                     const std::vector<ir::Tensor>& inputs) {
  const ir::Tensor truths = runtime::row_truths(packing, inputs.at(packing.mask));
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(truths.dims().at(0)));
  const std::int64_t sequence = truths.dims().at(1);
  for (std::int64_t i = 0; i < truths.elements(); ++i)
    if (truths.integer_at(i) == packing.kept) ++lengths[static_cast<std::size_t>(i / sequence)];
  return lengths;
}

}  // namespace

bool keep_call(const fs::path& folder, const std::vector<InputInfo>& inputs,
               const std::vector<ir::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const InputInfo& input : inputs) names.push_back(input.name);
  check_output_names(names);
  const fs::path call = folder / call_name(inputs, tensors);
  std::error_code fault;
  if (fs::exists(call, fault)) return true;
  if (calls_in(folder).size() >= most_kept_calls) return false;
  const fs::path partial =
      folder / fmt::format(".{}.{}.partial", call.filename().string(), getpid());
  try {
    write_outputs(partial, names, tensors);
  } catch (const Error&) {
    fs::remove_all(partial, fault);
    throw;
  }
  fs::rename(partial, call, fault);
  if (!fault) return true;
  const std::string why = fault.message();
  fs::remove_all(partial, fault);
  // Another process was faster with the same call.
  if (fs::exists(call, fault)) return true;
  throw Error(ErrorKind::Write, "{}: cannot be written ({})", call.string(), why);
}

std::vector<ir::Tensor> read_call(const fs::path& call, const std::vector<InputInfo>& inputs) {
  NamedTensors tensors;
  for (const InputInfo& input : inputs)
    tensors.emplace(input.name, read_npy(call / output_file_name(input.name)));
  return arrange_inputs(inputs, tensors);
}

tuner::Workload recorded_workload(const fs::path& folder, const std::vector<InputInfo>& inputs,
                                  const tuner::ModelShape& model) {
  const std::vector<fs::path> found = calls_in(folder);
  if (found.empty())
    throw Error(
        ErrorKind::Malformed,
        "{}: there is no recorded call in this folder (anydim run --record-calls writes them)",
        folder.string());
  tuner::Workload workload;
  const std::vector<std::string> symbols = model.symbol_names();
  std::string names;
  for (const fs::path& path : found) {
    const std::vector<ir::Tensor> tensors = read_call(path, inputs);
    tuner::Call call{.values = traced_values(symbols, inputs, tensors),
                     .inputs = fs::absolute(path).string()};
    if (model.packing) {
      // Such a call runs the padded program, which is not tuned.
      if (!runtime::pack_inputs(*model.packing, tensors)) continue;
      call.lengths = lengths_of(*model.packing, tensors);
    }
    workload.calls.push_back(std::move(call));
    names += path.filename().string();
  }
  if (workload.calls.empty())
    throw Error(ErrorKind::Inputs,
                "{}: the masks of all {} recorded calls keep them from being packed, so none runs "
                "the program that is tuned",
                folder.string(), found.size());
  workload.text =
      fmt::format("{} recorded calls ({})", workload.calls.size(), tuner::text_hash(names));
  return workload;
}

}  // namespace anydim
