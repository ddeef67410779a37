#include "tuner/html.h"

#include <fmt/format.h>

#include "tuner/plot.h"

namespace anydim::tuner {

namespace {

constexpr std::string_view style = R"css(
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0}
th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto;border:1px solid #eee;margin:.5em 0}
pre{background:#f6f6f6;padding:.6em;overflow-x:auto;font-size:12px}
.grid{stroke:#e4e4e4}.axis{stroke:#444;fill:none}.curve{fill:none;stroke-width:1.8}
.edge{stroke:#999;stroke-dasharray:3 3}.tick{font-size:11px;fill:#444}.label{font-size:12px;fill:#222}
)css";

}  // namespace

std::string html_page(std::string_view title, std::string_view css, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{0}</title>\n<style>{1}{2}</style>\n</"
      "head>\n<body>\n<h1>{0}</h1>\n{3}</body>\n</html>\n",
      escaped(title), style, css, body);
}

}  // namespace anydim::tuner
