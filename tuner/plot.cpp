#include "tuner/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace anydim::tuner {

namespace {

constexpr double width = 760, left = 80, right = 20, top = 22, bottom = 46, plotted = 280;
// The legend lies above the plot, some names a line.
constexpr std::size_t names_a_line = 4;
constexpr double line_height = 18;
// Told apart also by those who see few colours (Okabe and Ito), and by dashes.
constexpr std::string_view colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#56b4e9", "#e69f00", "#000000"};
constexpr std::string_view dashes[] = {"none", "7 3", "2 3", "9 3 2 3", "5 5", "1 2", "none"};

double head(const Plot& plot) {
  return top +
         line_height * static_cast<double>((plot.curves.size() + names_a_line - 1) / names_a_line);
}
double height(const Plot& plot) { return head(plot) + plotted + bottom; }

struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // values, and where they lie
  bool logarithmic = false;
  double at(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

// A step of 1, 2 or 5 times a power of ten that gives at most `most` ticks.
double nice_step(double span, int most) {
  const double power = std::pow(10, std::floor(std::log10(span / most)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (span / (factor * power) <= most) return factor * power;
  return 10 * power;
}

std::vector<double> ticks(const Axis& axis) {
  std::vector<double> values;
  if (axis.logarithmic) {
    for (double value = std::exp2(std::ceil(std::log2(axis.low))); value <= axis.high * 1.0001;
         value *= 2)
      values.push_back(value);
    return values;
  }
  const double step = nice_step(axis.high - axis.low, 8);
  for (double i = std::ceil(axis.low / step); i * step <= axis.high + step * 1e-6; ++i)
    values.push_back(i * step);
  return values;
}

bool shown(const std::pair<double, double>& point, bool logarithmic) {
  return std::isfinite(point.first) && std::isfinite(point.second) &&
         (!logarithmic || point.first > 0);
}

std::string axes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string text;
  for (const double value : ticks(y)) {
    text += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                        x.from, x.to, y.at(value), y.at(value));
    text += fmt::format(R"(<text class="tick" text-anchor="end" x="{:.1f}" y="{:.1f}">{}</text>)",
                        x.from - 6, y.at(value) + 4, seconds_text(value));
  }
  for (const double value : ticks(x))
    text +=
        fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{:.1f}">{:g}</text>)",
                    x.at(value), y.from + 16, value);
  text += fmt::format(R"(<path class="axis" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>)", x.from, y.to,
                      y.from, x.to);
  text += fmt::format(R"(<text class="label" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)",
                      (x.from + x.to) / 2, y.from + bottom - 8, escaped(plot.x_label));
  text += fmt::format(R"(<text class="label" x="{:.1f}" y="{:.1f}">{}</text>)", 4.0, y.to - 6,
                      escaped(plot.y_label));
  return text;
}

std::string curve_text(const ReportCurve& curve, std::size_t index, const Plot& plot, const Axis& x,
                       const Axis& y) {
  const std::string_view colour = colours[index % std::size(colours)];
  std::string path, dots;
  for (const auto& point : curve.points) {
    if (!shown(point, plot.logarithmic)) continue;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(point.first),
                        y.at(point.second));
    dots += fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"><title>{}: {:g}, {}</title></circle>)",
        x.at(point.first), y.at(point.second), colour, escaped(curve.name), point.first,
        seconds_text(point.second));
  }
  if (path.empty()) return {};
  return fmt::format(R"(<path class="curve" d="{}" stroke="{}" stroke-dasharray="{}"/>)", path,
                     colour, dashes[index % std::size(dashes)]) +
         dots;
}

std::string legend(const Plot& plot) {
  std::string text;
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const double y = 12 + line_height * static_cast<double>(i / names_a_line),
                 x = left + 170 * static_cast<double>(i % names_a_line);
    text += fmt::format(
        R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>)",
        x, x + 24, y, y, colours[i % std::size(colours)], dashes[i % std::size(dashes)]);
    text += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>)", x + 30, y + 4,
                        escaped(plot.curves[i].name));
  }
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += letter;
    }
  }
  return result;
}

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", 1e9 * seconds);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  return fmt::format("{:.3g} s", seconds);
}

std::string to_svg(const Plot& plot) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double x_low = infinity, x_high = -infinity, y_least = infinity, y_high = 0;
  for (const ReportCurve& curve : plot.curves) {
    for (const auto& point : curve.points) {
      if (!shown(point, plot.logarithmic)) continue;
      x_low = std::min(x_low, point.first);
      x_high = std::max(x_high, point.first);
      y_least = std::min(y_least, point.second);
      y_high = std::max(y_high, point.second);
    }
  }
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img"><title>{}</title>)",
      width, height(plot), escaped(plot.title));
  if (!(x_low <= x_high))
    return text + fmt::format(R"(<text x="{}" y="{}">nothing was measured</text></svg>)", left,
                              height(plot) / 2);
  if (x_low == x_high) x_low -= plot.logarithmic ? x_low / 2 : 1, x_high += 1;
  const double y_low =
      plot.from_zero ? 0 : std::max(0.0, y_least - 0.3 * (y_high - y_least) - 1e-3 * y_high);
  y_high += 0.05 * (y_high - y_low);
  const Axis x{x_low, x_high, left, width - right, plot.logarithmic};
  const Axis y{y_low, y_high > y_low ? y_high : y_low + 1, head(plot) + plotted, head(plot)};
  text += axes(plot, x, y);
  for (const double edge : plot.edges) {
    if (edge <= x_low || edge > x_high) continue;
    text += fmt::format(
        R"(<line class="edge" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"><title>edge at {:g}</title></line>)",
        x.at(edge), x.at(edge), y.from, y.to, edge);
  }
  for (std::size_t i = 0; i < plot.curves.size(); ++i)
    text += curve_text(plot.curves[i], i, plot, x, y);
  return text + legend(plot) + "</svg>\n";
}

}  // namespace anydim::tuner
