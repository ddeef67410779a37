#include "tuner/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/error.h"
#include "runtime/file_descriptor.h"

namespace anydim::tuner {

namespace {

constexpr int newest_form = 1;
constexpr int fewest_bits = 3;

std::int64_t rounded_up(std::int64_t value, int bits) {
  const int width = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
  if (width <= bits) return value;
  const std::int64_t unit = std::int64_t{1} << (width - bits);
  return (value + unit - 1) / unit * unit;
}

std::optional<std::string> contents_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

Error cannot_write(const std::filesystem::path& file) {
  return Error(ErrorKind::Write, fmt::format("{}: cannot be written: {}", file.string(), std::strerror(errno)));
}

void replace(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path temporary = file.string() + fmt::format(".{}.tmp", getpid());
  {
    const runtime::FileDescriptor descriptor(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!descriptor) throw cannot_write(file);
    if (!runtime::write_all(descriptor, std::as_bytes(std::span(text))) || fsync(descriptor.number()) != 0) {
      const Error error = cannot_write(file);
      unlink(temporary.c_str());
      throw error;
    }
  }
  if (rename(temporary.c_str(), file.c_str()) != 0) {
    const Error error = cannot_write(file);
    unlink(temporary.c_str());
    throw error;
  }
}

}  // namespace

Trace::Trace(std::vector<std::string> inputs, std::vector<std::string> symbols)
    : inputs_(std::move(inputs)), symbols_(std::move(symbols)) {}

std::int64_t Trace::calls() const {
  std::int64_t calls = 0;
  for (const auto& [sizes, count] : bins_) calls += count;
  return calls;
}

void Trace::add(std::span<const std::int64_t> values, std::int64_t rows, std::int64_t count) {
  internal_check(values.size() == symbols_.size(), "a traced call has a value for every symbol");
  TracedCall call;
  for (const std::int64_t value : values) call.push_back(rounded_up(value, significant_bits_));
  call.push_back(rounded_up(rows, significant_bits_));
  bins_[std::move(call)] += count;
  while (bins_.size() > most_bins && significant_bits_ > fewest_bits) coarsen();
}

void Trace::coarsen() {
  significant_bits_ = significant_bits_ > 8 ? 8 : significant_bits_ - 1;
  std::map<TracedCall, std::int64_t> merged;
  for (const auto& [sizes, count] : bins_) {
    TracedCall call;
    for (const std::int64_t size : sizes) call.push_back(rounded_up(size, significant_bits_));
    merged[std::move(call)] += count;
  }
  bins_ = std::move(merged);
}

void Trace::merge(const Trace& other) {
  if (other.inputs_ != inputs_ || other.symbols_ != symbols_) {
    throw Error(ErrorKind::Malformed, fmt::format("the trace is of another model: its inputs are {}, this model's are {}",
                                                  fmt::join(other.inputs_, "; "), fmt::join(inputs_, "; ")));
  }
  for (const auto& [sizes, count] : other.bins_) add(std::span(sizes).first(symbols_.size()), sizes.back(), count);
}

std::string Trace::to_json() const {
  nlohmann::ordered_json bins = nlohmann::ordered_json::array();
  for (const auto& [sizes, count] : bins_) {
    nlohmann::ordered_json bin = sizes;
    bin.push_back(count);
    bins.push_back(std::move(bin));
  }
  const nlohmann::ordered_json object = {
      {"anydim_trace", newest_form}, {"inputs", inputs_}, {"symbols", symbols_}, {"significant_bits", significant_bits_}, {"bins", bins}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Trace Trace::parse(std::string_view json, const std::string& where) {
  const auto malformed = [&](const std::string& why) { return Error(ErrorKind::Malformed, fmt::format("{}: {}", where, why)); };
  const nlohmann::json object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object() || !object.contains("anydim_trace"))
    throw malformed("this is no trace of shapes (anydim run --record writes them)");
  try {
    if (object.at("anydim_trace").get<int>() > newest_form) throw malformed("the trace was written by a newer version of anydim");
    Trace trace(object.at("inputs").get<std::vector<std::string>>(), object.at("symbols").get<std::vector<std::string>>());
    trace.significant_bits_ = std::clamp(object.at("significant_bits").get<int>(), fewest_bits, 63);
    for (const auto& bin : object.at("bins")) {
      const auto numbers = bin.get<std::vector<std::int64_t>>();
      const bool negative = std::ranges::any_of(numbers, [](std::int64_t number) { return number < 0; });
      if (numbers.size() != trace.symbols_.size() + 2 || negative || numbers.back() == 0)
        throw malformed(fmt::format("a bin has {} sizes from 0 and a count from 1; got {}", trace.symbols_.size() + 1, bin.dump()));
      trace.add(std::span(numbers).first(trace.symbols_.size()), numbers[trace.symbols_.size()], numbers.back());
    }
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw malformed(fmt::format("the trace is damaged: {}", error.what()));
  }
}

Trace read_trace(const std::filesystem::path& file) {
  const auto text = std::filesystem::is_regular_file(file) ? contents_of(file) : std::nullopt;
  if (!text) throw Error(ErrorKind::Malformed, fmt::format("{}: there is no such file", file.string()));
  return Trace::parse(*text, file.string());
}

void record_trace(const std::filesystem::path& file, const Trace& trace) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  // The folder's lock, so that no file stays behind for it.
  const runtime::FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) throw cannot_write(file);
  while (flock(lock.number(), LOCK_EX) != 0 && errno == EINTR) {
  }
  Trace merged(trace.inputs(), trace.symbols());
  if (std::filesystem::exists(file)) {
    const Trace before = read_trace(file);
    try {
      merged.merge(before);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", file.string(), error.what()));
    }
  }
  merged.merge(trace);
  replace(file, merged.to_json());
}

}  // namespace anydim::tuner
