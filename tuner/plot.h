// Line plots as SVG text.
#pragma once

#include <string>
#include <vector>

#include "tuner/report.h"

namespace anydim::tuner {

struct Plot {
  std::string title, x_label, y_label;
  std::vector<ReportCurve> curves;  // y in seconds
  std::vector<double> edges{};      // vertical lines
  bool logarithmic = false;         // the x axis
  bool from_zero = true;            // the y axis; else it begins a little below the least value
};

// One <svg> element, with a legend and every point's values as a tooltip. Points that are not
// finite are left out.
std::string to_svg(const Plot& plot);

// Text for use inside HTML and SVG.
std::string escaped(std::string_view text);

// "12.3 us", "4.5 ms".
std::string seconds_text(double seconds);

}  // namespace anydim::tuner
