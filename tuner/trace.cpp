#include "tuner/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/file_descriptor.h"
#include "ir/printable.h"
#include "tuner/json.h"
#include "tuner/text_file.h"

namespace anydim::tuner {

namespace {

constexpr int newest_form = 2, form_without_launches = 1;
constexpr int fewest_bits = 3;

std::int64_t rounded_up(std::int64_t value, int bits) {
  const int width = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
  if (width <= bits) return value;
  const std::int64_t unit = std::int64_t{1} << (width - bits);
  const std::int64_t most = INT64_MAX / unit * unit;
  return value > most ? INT64_MAX : value + (unit - value % unit) % unit;
}

std::vector<std::int64_t> rounded_up(std::span<const std::int64_t> values, int bits) {
  std::vector<std::int64_t> rounded;
  for (const std::int64_t value : values) rounded.push_back(rounded_up(value, bits));
  return rounded;
}

// A count that no more fits stays at the largest.
std::int64_t added(std::int64_t count, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(count, more, &sum) ? INT64_MAX : sum;
}

}  // namespace

Trace::Trace(std::vector<std::string> inputs, std::vector<std::string> symbols)
    : inputs_(std::move(inputs)), symbols_(std::move(symbols)) {}

std::int64_t Trace::calls() const {
  std::int64_t calls = 0;
  for (const auto& [sizes, bin] : bins_) calls = added(calls, bin.calls);
  return calls;
}

void Trace::add(std::span<const std::int64_t> values, std::int64_t rows,
                const TracedLaunches& launches, std::int64_t count) {
  internal_check(values.size() == symbols_.size(), "a traced call has a value for every symbol");
  TracedCall sizes(values.begin(), values.end());
  sizes.push_back(rows);
  take(sizes, {count, launches});
  while ((bins_.size() > most_bins || launches_ > most_launches) && significant_bits_ > fewest_bits)
    coarsen();
}

void Trace::take(std::span<const std::int64_t> sizes, const TraceBin& more) {
  TraceBin& bin = bins_[rounded_up(sizes, significant_bits_)];
  bin.calls = added(bin.calls, more.calls);
  for (const auto& [launch, count] : more.launches) {
    const auto [there, fresh] =
        bin.launches.try_emplace({launch.first, rounded_up(launch.second, significant_bits_)}, 0);
    there->second = added(there->second, count);
    launches_ += fresh ? 1 : 0;
  }
}

void Trace::coarsen() {
  significant_bits_ = significant_bits_ > 8 ? 8 : significant_bits_ - 1;
  const std::map<TracedCall, TraceBin> before = std::exchange(bins_, {});
  launches_ = 0;
  for (const auto& [sizes, bin] : before) take(sizes, bin);
}

void Trace::merge(const Trace& other) {
  if (other.inputs_ != inputs_ || other.symbols_ != symbols_) {
    throw Error(ErrorKind::Malformed,
                "the trace is of another model: its inputs are {}, this model's are {}",
                fmt::join(other.inputs_, "; "), fmt::join(inputs_, "; "));
  }
  for (const auto& [sizes, bin] : other.bins_)
    add(std::span(sizes).first(symbols_.size()), sizes.back(), bin.launches, bin.calls);
}

std::string Trace::to_json() const {
  using Json = nlohmann::ordered_json;
  std::map<std::string_view, std::size_t> regions;
  for (const auto& [sizes, bin] : bins_)
    for (const auto& [launch, count] : bin.launches)
      regions.try_emplace(launch.first, regions.size());
  Json bins = Json::array(), launches = Json::array(), names = Json::array();
  for (const auto& [sizes, bin] : bins_) {
    Json numbers = sizes;
    numbers.push_back(bin.calls);
    bins.push_back(std::move(numbers));
    Json& listed = launches.emplace_back(Json::array());
    for (const auto& [launch, count] : bin.launches) {
      Json one = {regions.at(launch.first)};
      for (const std::int64_t key : launch.second) one.push_back(key);
      one.push_back(count);
      listed.push_back(std::move(one));
    }
  }
  names.get_ref<Json::array_t&>().resize(regions.size());
  for (const auto& [name, position] : regions) names[position] = name;
  Json object = {{"anydim_trace", launches_ > 0 ? newest_form : form_without_launches},
                 {"inputs", inputs_},
                 {"symbols", symbols_},
                 {"significant_bits", significant_bits_},
                 {"bins", bins}};
  if (launches_ > 0) {
    object["regions"] = std::move(names);
    // of each bin: the region's position, its keys, how many
    object["launches"] = std::move(launches);
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Trace Trace::parse(std::string_view json, const std::string& where) {
  const auto malformed = [&](const std::string& why) {
    return Error(ErrorKind::Malformed, "{}: {}", where, why);
  };
  const auto integer = [&](const nlohmann::json& value) {
    if (!value.is_number_integer())
      throw malformed(
          fmt::format("the trace is damaged: {} is no whole number", printable_json(value)));
    return value.get<std::int64_t>();
  };
  const nlohmann::json object = parse_json(json);
  if (!object.is_object() || !object.contains("anydim_trace"))
    throw malformed("this is no trace of shapes (anydim run --record writes them)");
  try {
    if (integer(object.at("anydim_trace")) > newest_form)
      throw malformed("the trace was written by a newer version of anydim");
    Trace trace(object.at("inputs").get<std::vector<std::string>>(),
                object.at("symbols").get<std::vector<std::string>>());
    trace.significant_bits_ = static_cast<int>(
        std::clamp<std::int64_t>(integer(object.at("significant_bits")), fewest_bits, 63));
    const auto counted = [&](const nlohmann::json& list) {
      std::vector<std::int64_t> numbers;
      for (const auto& number : list) numbers.push_back(integer(number));
      const bool negative =
          std::ranges::any_of(numbers, [](std::int64_t number) { return number < 0; });
      if (negative || numbers.empty() || numbers.back() == 0) numbers.clear();
      return numbers;
    };
    const auto regions = object.value("regions", std::vector<std::string>());
    const nlohmann::json launches = object.value("launches", nlohmann::json::array());
    const nlohmann::json& bins = object.at("bins");
    if (!launches.empty() && launches.size() != bins.size())
      throw malformed(
          fmt::format("the trace is damaged: it has the launches of {} bins, and {} bins",
                      launches.size(), bins.size()));
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const std::vector<std::int64_t> numbers = counted(bins[i]);
      if (numbers.size() != trace.symbols_.size() + 2)
        throw malformed(fmt::format("a bin has {} sizes from 0 and a count from 1; got {}",
                                    trace.symbols_.size() + 1, printable_json(bins[i])));
      TracedLaunches of_bin;
      for (const nlohmann::json& listed : launches.empty() ? launches : launches[i]) {
        const std::vector<std::int64_t> launch = counted(listed);
        if (launch.size() < 2 || static_cast<std::uint64_t>(launch[0]) >= regions.size())
          throw malformed(
              fmt::format("a launch has the position of one of {} regions, keys from 0 and a count "
                          "from 1; got {}",
                          regions.size(), printable_json(listed)));
        of_bin[{regions[static_cast<std::size_t>(launch[0])],
                {launch.begin() + 1, launch.end() - 1}}] = launch.back();
      }
      trace.add(std::span(numbers).first(trace.symbols_.size()), numbers[trace.symbols_.size()],
                of_bin, numbers.back());
    }
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw malformed(fmt::format("the trace is damaged: {}", error.what()));
  }
}

Trace read_trace(const std::filesystem::path& file) {
  return Trace::parse(read_text_file(file), file.string());
}

void record_trace(const std::filesystem::path& file, const Trace& trace) {
  const std::filesystem::path folder =
      file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  // The folder's lock, so that no file stays behind for it.
  const ir::FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) throw cannot_write(file);
  while (flock(lock.number(), LOCK_EX) != 0 && errno == EINTR) {
  }
  Trace merged(trace.inputs(), trace.symbols());
  if (replaceable_file_exists(file)) {
    const Trace before = read_trace(file);
    try {
      merged.merge(before);
    } catch (const Error& error) {
      throw Error(error.kind(), "{}: {}", file.string(), error.what());
    }
  }
  merged.merge(trace);
  write_text_file(file, merged.to_json());
}

}  // namespace anydim::tuner
