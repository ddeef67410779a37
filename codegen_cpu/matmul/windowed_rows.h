// Left operands whose rows are windows over images: what a convolution's rows share is packed once.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// Rows and depth of a convolution, taken apart: a row is an image, a line of the output and a place
// of the line, a depth a line of the window, a place of that line and a channel, or with `planes` a
// channel, a line and a place. What is read depends on line `line_step * (output line) + (window's
// line)` of the image as it is padded, and on place `place_step * (output place) + (window's
// place)` of that line alone. Lines are packed place by place, with planes channel by channel. A
// row thus is `window_lines` runs of `run` elements, a line apart, with planes that many of each
// channel, and begins row_elements() behind the row before.
struct WindowedRows {
  ir::ScalarProgram program;  // the element over image, line, place and channel
  ir::Iteration image, line, place, channel;
  ir::Dim output_lines;  // of an image, at least 1
  ir::Dim width;         // places of an output line, at least 1
  std::int64_t line_step = 0, place_step = 0, window_lines = 0;
  std::int64_t run = 0;
  bool planes = false;      // channels are the outermost digit of the depth
  std::int64_t spread = 0;  // elements left free behind a place's channels; 0 with planes

  // Rows that read an element.
  double reuse() const {
    return static_cast<double>(window_lines * run) /
           static_cast<double>(line_step * place_step * (planes ? 1 : channels()));
  }
  std::int64_t channels() const { return channel.extent.constant().value(); }
  ir::Dim places() const { return place.extent; }
  std::int64_t place_elements() const { return channels() + spread; }
  std::int64_t window_places() const { return planes ? run : run / channels(); }
  ir::Dim line_elements() const { return places() * place_elements(); }
  // From row to row.
  std::int64_t row_elements() const { return planes ? place_step : place_step * place_elements(); }
  // Lines that lie behind each other for so many lines of output, some more where these are of
  // several images.
  ir::Dim lines_for(const ir::Dim& output) const;
};

// nullopt where rows are of another form, or share nothing. `fresh` gives variables that nothing
// else uses; they are declared in `symbols`.
std::optional<WindowedRows> windowed_rows(const ir::ScalarProgram& program,
                                          const ir::Iteration& row, const ir::Iteration& depth,
                                          const std::function<ir::DimLeaf()>& fresh,
                                          ir::SymbolTable& symbols);

// How many rows read an element of a form's left operand as it is packed, found once, as costs are
// asked for many shapes. May be shared by threads.
class LeftReuse {
 public:
  // Always of the same form.
  double of(const ir::MatmulForm& form, const ir::SymbolTable& symbols);

 private:
  std::once_flag found_;
  double reuse_ = 1;
};

}  // namespace anydim::codegen_cpu
