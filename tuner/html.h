// Pages that open offline: one self-contained HTML file, which refers to nothing outside of itself.
#pragma once

#include <string>
#include <string_view>

namespace anydim::tuner {

// A whole page: `title` is text, `css` is added to the style of all pages, `body` is HTML.
std::string html_page(std::string_view title, std::string_view css, std::string_view body);

}  // namespace anydim::tuner
