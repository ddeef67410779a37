#include "api/explain_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "api/append.h"
#include "tuner/html.h"
#include "tuner/plot.h"

namespace anydim {

namespace {

using tuner::escaped;
using tuner::seconds_text;

constexpr std::string_view css = R"css(
body{max-width:80em}#roofline{max-width:58em;display:block}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10em,1fr));gap:.8em;margin:1.2em 0}
.card{border:1px solid #e2e2e2;border-radius:6px;padding:.6em .9em}
.card b{display:block;font-size:1.5em;font-weight:600}.card span{color:#666;font-size:.85em}
td,th{vertical-align:top;white-space:nowrap;border-bottom:none}th{border-bottom:1px solid #ddd}
.by td{font-size:12px;color:#666;white-space:normal;padding-bottom:.8em;border-bottom:1px solid #ddd}.wide{overflow-x:auto}.small{font-size:12px;color:#666}td.text{text-align:left}
.track{background:#f1f1f1;width:11em;height:1em;position:relative;border-radius:2px}
.track div{position:absolute;left:0;top:0;height:100%;border-radius:2px}
.track i{position:absolute;top:-2px;height:calc(100% + 4px);border-left:2px solid #222}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .35em 0 1em;vertical-align:-.05em}
details{margin:.2em 0}summary{cursor:pointer}
.roof{stroke:#444;fill:none;stroke-width:1.6}.mark{stroke:#222;stroke-width:1.6}
)css";

// Told apart also by those who see few colours (Okabe and Ito).
constexpr std::string_view palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#e69f00", "#56b4e9", "#555555"};

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.3g} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6)
                     : fmt::format("{:.3g} GB", bytes / 1e9);
}

// What a region computes, as its name says it: "matmul" of "matmul_3".
std::string kind_of(const std::string& region) {
  const std::size_t end = region.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < region.size() && region[end] == '_'
             ? region.substr(0, end)
             : region;
}

// All launches of one region.
struct Group {
  std::string region;
  std::vector<const LaunchExplanation*> launches{};
  double seconds = 0, roofline = 0, operations = 0, bytes = 0;  // of all
  bool roofline_known = true;
};

class Page {
 public:
  explicit Page(const ModelExplanation& explanation)
      : explanation_(explanation), call_(explanation.call) {
    for (const LaunchExplanation& launch : call_.launches) {
      const auto known = std::ranges::find(groups_, launch.region, &Group::region);
      Group& group =
          known == groups_.end() ? groups_.emplace_back(Group{.region = launch.region}) : *known;
      group.launches.push_back(&launch);
      group.seconds += launch.measured_seconds;
      group.roofline += launch.roofline_seconds;
      group.roofline_known = group.roofline_known && launch.roofline_seconds > 0;
      group.operations += 2 * launch.work.multiply_adds;
      group.bytes += launch.work.bytes;
      kernel_seconds_ += launch.measured_seconds;
      roofline_seconds_ += launch.roofline_seconds;
    }
    std::ranges::sort(groups_, std::greater(), &Group::seconds);
    for (const Group& group : groups_)
      if (const std::string kind = kind_of(group.region);
          std::ranges::find(kinds_, kind) == kinds_.end())
        kinds_.push_back(kind);
  }

  std::string body(const std::vector<std::pair<std::string, std::string>>& facts) {
    cards();
    append(text_, "<p>Padding {}.</p>\n", escaped(explanation_.padding));
    if (!explanation_.equal_dims.empty())
      append(text_, "<p>For calls with {}.</p>\n", escaped(explanation_.equal_dims));
    timeline();
    regions();
    roofline();
    buckets();
    append(text_, "<h2>Facts</h2>\n<table>\n");
    for (const auto& [name, value] : facts) fact(name, value);
    fact("symbols", listed(call_.symbols));
    fact("kernels", fmt::format("{} in the tables, {} from the cache, {} compiled now, {} failed",
                                call_.kernels.entries, call_.kernels.from_cache,
                                call_.kernels.compiled, call_.kernels.failed));
    fact("code", bytes_text(static_cast<double>(call_.kernels.code_bytes)));
    fact("arena ceiling", call_.arena_ceiling + " bytes");
    fact("shape stages, fetches", fmt::format("{}, {}", call_.stages, call_.fetches));
    return text_ + "</table>\n";
  }

 private:
  std::string_view colour_of(const std::string& region) const {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(kinds_, kind_of(region)) - kinds_.begin());
    return palette[std::min(at, std::size(palette) - 1)];
  }

  void fact(std::string_view name, std::string_view value) {
    append(text_, "<tr><td>{}</td><td class=\"text\">{}</td></tr>\n", escaped(name),
           escaped(value));
  }

  void card(std::string_view value, std::string_view what) {
    append(text_, "<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escaped(value),
           escaped(what));
  }

  void cards() {
    const double call = std::max(call_.call_seconds, 1e-12);
    append(text_, "<div class=\"cards\">\n");
    card(seconds_text(call_.call_seconds), "one call");
    card(fmt::format("{:.0f} %", 100 * kernel_seconds_ / call),
         fmt::format("of it in {} kernel launches", call_.launches.size()));
    if (roofline_seconds_ > 0)
      card(seconds_text(roofline_seconds_),
           fmt::format("is the least that this processor's limits allow: {:.0f} %",
                       100 * roofline_seconds_ / call));
    card(bytes_text(
             static_cast<double>(call_.memory.arena + call_.memory.pool + call_.memory.scratch)),
         "activations and scratch");
    card(bytes_text(static_cast<double>(call_.constant_bytes)), "weights");
    append(text_, "</div>\n");
  }

  void legend() {
    append(text_, "<p class=\"small\">");
    for (const std::string& kind : kinds_)
      append(text_, "<span class=\"key\" style=\"background:{}\"></span>{}", colour_of(kind),
             escaped(kind));
    append(text_, "</p>\n");
  }

  // A lane for each kind of region; launches follow each other.
  void timeline() {
    if (call_.shown_seconds <= 0) return;
    constexpr double left = 150, width = 1180, lane = 26, top = 8, right = 30;
    const double height = top + lane * static_cast<double>(kinds_.size()) + 26;
    const auto at = [&](double seconds) {
      return left + (width - left - right) * seconds / call_.shown_seconds;
    };
    append(text_,
           "<h2>One call over time</h2>\n<p class=\"small\">The fastest of the measured calls, {}. "
           "Point at a launch for what it is.</p>\n"
           "<svg viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
           "aria-label=\"launches over time\" id=\"timeline\">\n",
           seconds_text(call_.shown_seconds), width, height);
    const double bottom = height - 22;
    for (int tick = 0; tick <= 8; ++tick) {
      const double seconds = call_.shown_seconds * tick / 8, x = at(seconds);
      append(text_, "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x,
             top, bottom);
      append(text_, "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
             x, bottom + 15, seconds_text(seconds));
    }
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      append(text_, "<text class=\"label\" x=\"4\" y=\"{:.1f}\">{}</text>\n",
             top + lane * (static_cast<double>(i) + 0.65), escaped(kinds_[i]));
    for (const LaunchExplanation& launch : call_.launches) {
      const auto row =
          static_cast<double>(std::ranges::find(kinds_, kind_of(launch.region)) - kinds_.begin());
      const double from = at(launch.begun_seconds),
                   to = at(launch.begun_seconds + launch.lasted_seconds);
      append(
          text_,
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}: "
          "{}\n{}\nfrom {}\nbucket {}\n{} ({})</title></rect>\n",
          from, top + lane * row + 3, std::max(to - from, 0.8), lane - 6, colour_of(launch.region),
          escaped(launch.region), seconds_text(launch.lasted_seconds), escaped(listed(launch.dims)),
          escaped(launch.source.empty() ? "no node" : launch.source), escaped(launch.bucket),
          escaped(launch.schedule), escaped(launch.chosen));
    }
    append(text_, "</svg>\n");
  }

  void regions() {
    append(
        text_,
        "<h2>Regions</h2>\n<p class=\"small\">A region is what one kernel computes. The bar is the "
        "time of its launches in a call, medians of the measured ones; the mark in it the least "
        "time that arithmetic and memory allow (roofline). Work is what any kernel would have to "
        "do: operations of products, and every operand once.</p>\n");
    legend();
    append(text_,
           "<div class=\"wide\"><table "
           "id=\"regions\">\n<tr><th>region</th><th>launches</th><th></th><th>time</th><th>share</"
           "th><th>of the roofline</th><th>GFLOP/s</th><th>GB/s</th></tr>\n");
    const double most = groups_.empty() ? 1 : std::max(groups_.front().seconds, 1e-12);
    for (const Group& group : groups_) {
      const LaunchExplanation& one = *group.launches.front();
      append(text_, "<tr><td>{}<div class=\"small\">{}</div></td><td>{}</td>",
             escaped(group.region), sources(group), group.launches.size());
      append(text_, "<td><div class=\"track\"><div style=\"width:{:.1f}%;background:{}\"></div>",
             100 * group.seconds / most, colour_of(group.region));
      if (group.roofline > 0)
        append(text_, "<i style=\"left:{:.1f}%\"></i>",
               std::min(100.0, 100 * group.roofline / most));
      append(text_, "</div></td><td>{}</td><td>{:.1f} %</td>", seconds_text(group.seconds),
             100 * group.seconds / std::max(kernel_seconds_, 1e-12));
      const double seconds = std::max(group.seconds, 1e-12);
      append(text_, "<td>{}</td><td>{}</td><td>{:.3g}</td>",
             group.roofline_known ? fmt::format("{:.0f} %", 100 * group.roofline / seconds)
                                  : std::string(),
             group.operations > 0 ? fmt::format("{:.3g}", 1e-9 * group.operations / seconds)
                                  : std::string(),
             1e-9 * group.bytes / seconds);
      append(
          text_,
          "</tr>\n<tr class=\"by\"><td colspan=\"8\">bucket {}, keys {}; {} ({}); {}</td></tr>\n",
          escaped(one.bucket), escaped(listed(one.keys)), escaped(one.schedule),
          escaped(one.chosen), escaped(one.kernel));
    }
    append(text_, "</table></div>\n");
  }

  // The nodes of a few launches; all of many would hide the rest.
  static std::string sources(const Group& group) {
    constexpr std::size_t shown = 2;
    std::set<std::string> names;
    for (const LaunchExplanation* launch : group.launches)
      names.insert(launch->source.empty() ? "no node" : launch->source);
    std::string text;
    std::size_t count = 0;
    for (const std::string& name : names) {
      if (count++ == shown) return text + fmt::format("<br>and {} others", names.size() - shown);
      append(text, "{}{}", text.empty() ? "" : "<br>", escaped(name));
    }
    return text;
  }

  // Operations a second over operations a byte, both logarithmic.
  void roofline() {
    std::vector<const Group*> products;
    for (const Group& group : groups_)
      if (group.operations > 0 && group.bytes > 0 && group.seconds > 0) products.push_back(&group);
    if (products.empty() || !call_.limits || call_.limits->multiply_adds <= 0 ||
        call_.limits->reads.empty())
      return;
    const double peak = 2 * call_.limits->multiply_adds, cache = call_.limits->reads.front().second,
                 memory = call_.limits->reads.back().second;
    double x_low = 0.25, x_high = 256, y_low = peak / 100, y_high = 2 * peak;
    for (const Group* group : products) {
      x_low = std::min(x_low, group->operations / group->bytes / 2);
      x_high = std::max(x_high, group->operations / group->bytes * 2);
      y_low = std::min(y_low, group->operations / group->seconds / 2);
      y_high = std::max(y_high, group->operations / group->seconds * 2);
    }
    constexpr double width = 900, height = 400, left = 80, right = 20, top = 14, bottom = 44;
    const auto x_at = [&](double x) {
      return left + (width - left - right) * std::log(x / x_low) / std::log(x_high / x_low);
    };
    const auto y_at = [&](double y) {
      return height - bottom -
             (height - top - bottom) * std::log(y / y_low) / std::log(y_high / y_low);
    };
    append(
        text_,
        "<h2>Roofline</h2>\n<p class=\"small\">Products and attention beside what this processor "
        "did at most, measured just now: {:.3g} GFLOP/s, {:.3g} GB/s from the fastest cache, "
        "{:.3g} GB/s from memory. The area of a dot is its share of the time. Other regions have "
        "bytes alone, see GB/s above.</p>\n"
        "<svg viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
        "aria-label=\"roofline\" id=\"roofline\">\n",
        1e-9 * peak, 1e-9 * cache, 1e-9 * memory, width, height);
    for (double x = std::exp2(std::ceil(std::log2(x_low))); x <= x_high; x *= 4) {
      append(text_, "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>",
             x_at(x), top, height - bottom);
      append(text_,
             "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{:g}</text>\n",
             x_at(x), height - bottom + 16, x);
    }
    for (double y = std::pow(10, std::ceil(std::log10(y_low))); y <= y_high; y *= 10) {
      append(text_, "<line class=\"grid\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>",
             y_at(y), left, width - right);
      append(text_, "<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1f}\">{:g}</text>\n",
             left - 6, y_at(y) + 4, 1e-9 * y);
    }
    append(
        text_,
        "<text class=\"label\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">operations a byte</text>",
        width / 2, height - 8);
    append(text_, "<text class=\"label\" x=\"4\" y=\"{}\">GFLOP/s</text>\n", top + 4);
    for (const auto& [rate, dash] : {std::pair(cache, "6 4"), std::pair(memory, "none")}) {
      const double from = std::max(x_low, y_low / rate),
                   ridge = std::clamp(peak / rate, x_low, x_high);
      append(text_,
             "<path class=\"roof\" stroke-dasharray=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} "
             "{:.1f}H{:.1f}\"/>\n",
             dash, x_at(from), y_at(std::min(peak, rate * from)), x_at(ridge),
             y_at(std::min(peak, rate * ridge)), width - right);
    }
    for (const Group* group : products) {
      const double x = group->operations / group->bytes, y = group->operations / group->seconds;
      append(text_,
             "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" "
             "fill-opacity=\"0.75\"><title>{}: {:.3g} GFLOP/s at {:.3g} operations a byte, "
             "{}</title></circle>\n",
             x_at(x), y_at(y),
             3 + 14 * std::sqrt(group->seconds / std::max(kernel_seconds_, 1e-12)),
             colour_of(group->region), escaped(group->region), 1e-9 * y, x,
             seconds_text(group->seconds));
    }
    append(text_,
           "</svg>\n<p class=\"small\">Dashed: from the fastest cache. Solid: from memory.</p>\n");
  }

  void buckets() {
    append(
        text_,
        "<h2>Buckets</h2>\n<p class=\"small\">Which sizes share a kernel, over the region's first "
        "key, logarithmic; grey is left to the general kernel. The mark is where this call's key "
        "lies. Rows are tried from above.</p>\n");
    for (const Group& group : groups_) {
      std::vector<const TableRow*> rows;
      for (const TableRow& row : call_.tables)
        if (row.region == group.region) rows.push_back(&row);
      if (rows.empty()) continue;
      append(text_, "<details{}><summary>{}: {} {}</summary>\n", rows.size() > 1 ? " open" : "",
             escaped(group.region), rows.size(),
             rows.size() == 1 ? "kernel for all sizes" : "rows");
      if (rows.size() > 1 && !rows.front()->intervals.empty()) strip(group, rows);
      append(text_, "<pre>");
      for (const TableRow* row : rows)
        append(text_, "{}  {}: {}, {}\n", escaped(row->bucket), escaped(row->schedule),
               escaped(row->chosen), seconds_text(row->expected_seconds));
      append(text_, "</pre></details>\n");
    }
  }

  void strip(const Group& group, const std::vector<const TableRow*>& rows) {
    constexpr double width = 1180, left = 8, right = 60, bar = 22;
    const auto value = [](std::int64_t size) {
      return static_cast<double>(std::max<std::int64_t>(size, 1));
    };
    double high = 64;
    for (const TableRow* row : rows) high = std::max(high, 8 * value(row->intervals.front().low));
    for (const LaunchExplanation* launch : group.launches)
      if (!launch->keys.empty()) high = std::max(high, 4 * value(launch->keys.front().second));
    const auto at = [&](double size) {
      return left + (width - left - right) * std::log(std::min(size, high)) / std::log(high);
    };
    append(text_,
           "<svg viewBox=\"0 0 {} 52\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
           "aria-label=\"buckets of {}\">\n",
           width, escaped(group.region));
    append(text_, "<rect x=\"{}\" y=\"6\" width=\"{}\" height=\"{}\" fill=\"#e8e8e8\"/>\n", left,
           width - left - right, bar);
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {  // the last serves what is left
      const ir::BucketInterval& interval = rows[i]->intervals.front();
      const double from = at(value(interval.low)), to = at(value(interval.high) + 1);
      append(text_,
             "<rect x=\"{:.1f}\" y=\"6\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" "
             "fill-opacity=\"{}\" stroke=\"#fff\"><title>{}\n{}</title></rect>\n",
             from, std::max(to - from, 1.0), bar, colour_of(group.region), i % 2 == 0 ? 0.75 : 0.5,
             escaped(rows[i]->bucket), escaped(rows[i]->schedule));
    }
    for (double tick = 1; tick <= high; tick *= 4)
      append(text_,
             "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{:g}</text>\n",
             at(tick), 44, tick);
    std::set<std::int64_t> keys;
    for (const LaunchExplanation* launch : group.launches)
      if (!launch->keys.empty()) keys.insert(launch->keys.front().second);
    for (const std::int64_t key : keys)
      append(
          text_,
          "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"1\" y2=\"33\"><title>this call: "
          "{1}</title></line>\n",
          at(value(key)), key);
    append(text_, "</svg>\n");
  }

  const ModelExplanation& explanation_;
  const CallExplanation& call_;
  std::vector<Group> groups_;       // by time, the longest first
  std::vector<std::string> kinds_;  // of regions, likewise
  double kernel_seconds_ = 0, roofline_seconds_ = 0;
  std::string text_;
};

}  // namespace

std::string explain_page(const std::string& model, const ModelExplanation& explanation,
                         const std::vector<std::pair<std::string, std::string>>& facts) {
  return tuner::html_page(model, css, Page(explanation).body(facts));
}

}  // namespace anydim
