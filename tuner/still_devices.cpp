#include "tuner/still_devices.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "ir/printable.h"
#include "tuner/json.h"
#include "tuner/observed.h"
#include "tuner/text_file.h"
#include "tuner/tolerance.h"

namespace anydim::tuner {

namespace {

const ir::Region& region_of(const TuneSubject& subject, const TrialRequest& request) {
  return kernel_of(subject, request.kernel).region;
}

const ir::Schedule& incumbent_at(const TuneSubject& subject, const TrialRequest& request,
                                 const TrialPoint& point) {
  return entry_for(kernel_of(subject, request.kernel).table, point.keys).schedule;
}

PointTimes exactly(double seconds, double incumbent) {
  const double ratio = incumbent > 0 ? seconds / incumbent : 1;
  return {.seconds = seconds,
          .incumbent_seconds = incumbent,
          .ratio = ratio,
          .low = ratio,
          .high = ratio,
          .samples = 0};
}

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
};

ProductShape parse_product(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* last = at + text.size();
  while (at < last) {
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(at, last, number);
    if (fault != std::errc{} || number < 1) break;
    numbers.push_back(number);
    at = end < last && *end == 'x' ? end + 1 : end;
    if (end < last && *end != 'x') break;
  }
  if (numbers.size() != 3 || at != last)
    throw Error(ErrorKind::Malformed, "{}: '{}' is no shape MxNxK", where, ir::printable(text));
  return {numbers[0], numbers[1], numbers[2]};
}

}  // namespace

TuneDevice predicted_device(const TuneSubject& subject) {
  const auto measure = [&subject](const TrialRequest& request) -> std::optional<Trial> {
    const ir::Region& region = region_of(subject, request);
    Trial trial;
    try {
      trial.resources =
          subject.backend.compile(region, whole_range(region), request.schedule).resources;
    } catch (const Error& error) {
      // Without a compiler only the cost model speaks.
      if (error.kind() != ErrorKind::Resource)
        return Trial{.outcome = Outcome::Uncompiled, .detail = error.what()};
    }
    if (trial.resources.spills > 0) {
      trial.outcome = Outcome::Uncompiled;
      trial.detail = fmt::format("spills {} bytes of registers, which the cost model does not know",
                                 trial.resources.spills);
      return trial;
    }
    for (const TrialPoint& point : request.points) {
      const auto estimate = [&](const ir::Schedule& schedule) {
        return subject.backend.estimate(region, schedule, point.keys, subject.environment.threads);
      };
      trial.points.push_back(
          exactly(estimate(request.schedule), estimate(incumbent_at(subject, request, point))));
    }
    return trial;
  };
  return {.measure = measure, .measured = false};
}

RecordedMatrix RecordedMatrix::parse(std::string_view json, const std::string& where) {
  const nlohmann::json whole = parse_json(json);
  const nlohmann::json object =
      whole.is_object() && whole.contains("matrix") ? whole["matrix"] : whole;
  if (!object.is_object())
    throw Error(ErrorKind::Malformed, "{}: this is no matrix of latencies by schedule and shape",
                where);
  RecordedMatrix matrix;
  for (const auto& [schedule, shapes] : object.items()) {
    if (!shapes.is_object())
      throw Error(ErrorKind::Malformed, "{}: '{}' has no latencies by shape", where,
                  ir::printable(schedule));
    const std::string name = to_string(ir::parse_schedule(schedule));
    for (const auto& [text, microseconds] : shapes.items()) {
      const ProductShape shape = parse_product(text, where);
      if (!microseconds.is_number() || !(microseconds.get<double>() > 0))
        throw Error(ErrorKind::Malformed, "{}: the latency of {} at {} is no time above 0", where,
                    ir::printable(schedule), ir::printable(text));
      matrix.seconds_[name][{shape.n, shape.k}][shape.m] = 1e-6 * microseconds.get<double>();
    }
  }
  if (matrix.seconds_.empty())
    throw Error(ErrorKind::Malformed, "{}: there is no latency in it", where);
  return matrix;
}

RecordedMatrix RecordedMatrix::read(const std::filesystem::path& file) {
  return parse(read_text_file(file), file.string());
}

std::vector<ir::Schedule> RecordedMatrix::schedules() const {
  std::vector<ir::Schedule> schedules;
  for (const auto& [name, shapes] : seconds_) schedules.push_back(ir::parse_schedule(name));
  return schedules;
}

std::optional<double> RecordedMatrix::seconds(const ir::Schedule& schedule, std::int64_t m,
                                              std::int64_t n, std::int64_t k) const {
  const auto of_schedule = seconds_.find(to_string(schedule));
  if (of_schedule == seconds_.end()) return std::nullopt;
  const auto of_product = of_schedule->second.find({n, k});
  if (of_product == of_schedule->second.end()) return std::nullopt;
  const auto at = of_product->second.lower_bound(m);
  return at == of_product->second.end() ? of_product->second.rbegin()->second : at->second;
}

TuneDevice replayed_device(const TuneSubject& subject, const RecordedMatrix& matrix) {
  const auto measure = [&subject, &matrix](const TrialRequest& request) -> std::optional<Trial> {
    const ir::Region& region = region_of(subject, request);
    const auto form = ir::loop_form_of(region);
    const auto* product = std::get_if<ir::MatmulForm>(&form->kind);
    const auto n = product == nullptr ? std::nullopt : product->n.extent.constant(),
               k = product == nullptr ? std::nullopt : product->k.extent.constant();
    if (!n || !k || product->gate || region.keys.size() != 1)
      return Trial{.outcome = Outcome::Uncompiled,
                   .detail = "only products of one varying extent are recorded"};
    Trial trial;
    for (const TrialPoint& point : request.points) {
      const auto own = matrix.seconds(request.schedule, point.keys[0], *n, *k);
      const auto incumbent =
          matrix.seconds(incumbent_at(subject, request, point), point.keys[0], *n, *k);
      if (!own || !incumbent)
        return Trial{.outcome = Outcome::Uncompiled,
                     .detail = fmt::format("not recorded for n={} k={}", *n, *k)};
      trial.points.push_back(exactly(*own, *incumbent));
    }
    return trial;
  };
  return {.measure = measure};
}

}  // namespace anydim::tuner
