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
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/file_descriptor.h"
#include "tuner/json.h"
#include "tuner/text_file.h"

namespace anydim::tuner {

namespace {

constexpr int newest_form = 1;
constexpr int fewest_bits = 3;

std::int64_t rounded_up(std::int64_t value, int bits) {
  const int width = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
  if (width <= bits) return value;
  const std::int64_t unit = std::int64_t{1} << (width - bits);
  const std::int64_t most = INT64_MAX / unit * unit;
  return value > most ? INT64_MAX : value + (unit - value % unit) % unit;
}

// A count that no more fits stays at the largest.
std::int64_t added(std::int64_t count, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(count, more, &sum) ? INT64_MAX : sum;
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
  for (const auto& [sizes, count] : bins_) calls = added(calls, count);
  return calls;
}

void Trace::add(std::span<const std::int64_t> values, std::int64_t rows, std::int64_t count) {
  internal_check(values.size() == symbols_.size(), "a traced call has a value for every symbol");
  TracedCall call;
  for (const std::int64_t value : values) call.push_back(rounded_up(value, significant_bits_));
  call.push_back(rounded_up(rows, significant_bits_));
  std::int64_t& there = bins_[std::move(call)];
  there = added(there, count);
  while (bins_.size() > most_bins && significant_bits_ > fewest_bits) coarsen();
}

void Trace::coarsen() {
  significant_bits_ = significant_bits_ > 8 ? 8 : significant_bits_ - 1;
  std::map<TracedCall, std::int64_t> merged;
  for (const auto& [sizes, count] : bins_) {
    TracedCall call;
    for (const std::int64_t size : sizes) call.push_back(rounded_up(size, significant_bits_));
    std::int64_t& there = merged[std::move(call)];
    there = added(there, count);
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
  const auto integer = [&](const nlohmann::json& value) {
    if (!value.is_number_integer()) throw malformed(fmt::format("the trace is damaged: {} is no whole number", printable_json(value)));
    return value.get<std::int64_t>();
  };
  const nlohmann::json object = parse_json(json);
  if (!object.is_object() || !object.contains("anydim_trace"))
    throw malformed("this is no trace of shapes (anydim run --record writes them)");
  try {
    if (integer(object.at("anydim_trace")) > newest_form) throw malformed("the trace was written by a newer version of anydim");
    Trace trace(object.at("inputs").get<std::vector<std::string>>(), object.at("symbols").get<std::vector<std::string>>());
    trace.significant_bits_ = static_cast<int>(std::clamp<std::int64_t>(integer(object.at("significant_bits")), fewest_bits, 63));
    for (const auto& bin : object.at("bins")) {
      std::vector<std::int64_t> numbers;
      for (const auto& number : bin) numbers.push_back(integer(number));
      const bool negative = std::ranges::any_of(numbers, [](std::int64_t number) { return number < 0; });
      if (numbers.size() != trace.symbols_.size() + 2 || negative || numbers.back() == 0)
        throw malformed(
            fmt::format("a bin has {} sizes from 0 and a count from 1; got {}", trace.symbols_.size() + 1, printable_json(bin)));
      trace.add(std::span(numbers).first(trace.symbols_.size()), numbers[trace.symbols_.size()], numbers.back());
    }
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw malformed(fmt::format("the trace is damaged: {}", error.what()));
  }
}

Trace read_trace(const std::filesystem::path& file) { return Trace::parse(read_text_file(file), file.string()); }

void record_trace(const std::filesystem::path& file, const Trace& trace) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  // The folder's lock, so that no file stays behind for it.
  const runtime::FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) throw cannot_write(file);
  while (flock(lock.number(), LOCK_EX) != 0 && errno == EINTR) {
  }
  Trace merged(trace.inputs(), trace.symbols());
  std::error_code fault;
  const auto status = std::filesystem::status(file, fault);
  if (std::filesystem::exists(status)) {
    // What is written takes the place of the file: a device or a folder would be replaced, or could not be.
    if (!std::filesystem::is_regular_file(status))
      throw Error(ErrorKind::Write, fmt::format("{}: a trace cannot be written there: it is no regular file", file.string()));
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
