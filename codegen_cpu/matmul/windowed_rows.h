// Left operands whose rows are windows over images: what a convolution's rows share is packed once.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// Rows and depth of a convolution, taken apart: a row is an image, a line of the output and a place
// of the line, a depth a line of the window, a place of that line and a channel, or with `planes` a
// channel, a line and a place. What is read depends on line `lines.step * (output line) +
// lines.dilation * (window's line)` of the image as it is padded, and on such a place of that line
// alone. Where windows reach over several slices of a volume, an output slice counts as an image,
// and a line of it has all its window's slices behind each other: `slice`, with planes a part of
// `channel`. Lines are packed place by place, with planes channel by channel. A row thus is runs()
// of run() elements and begins row_elements() behind the row before.
//
// Windows along one dim alone are those of a `sequence`: a line is a single place, rows follow each
// other from line to line, and what has a beginning and an end is an image.
struct WindowedRows {
  struct Axis {
    std::int64_t step = 1, dilation = 1;  // one of them is 1
    std::int64_t size = 0;                // of the window
    std::int64_t reach() const { return (size - 1) * dilation + 1; }
  };
  ir::ScalarProgram program;  // the element over image, line, slice, place and channel
  ir::Iteration image, line, slice, place, channel;
  ir::Dim output_lines;  // of an image, at least 1
  ir::Dim width;         // places of an output line, at least 1
  Axis lines, places;
  bool planes = false;  // channels are the outermost digit of the depth; places lie dense
  bool sequence = false;
  std::int64_t spread = 0;  // elements left free behind a place's channels; 0 with planes

  // Rows that read an element.
  double reuse() const {
    return static_cast<double>(lines.size * places.size) /
           static_cast<double>(lines.step * places.step);
  }
  std::int64_t channels() const { return channel.extent.constant().value(); }
  std::int64_t window_slices() const { return slice.extent.constant().value(); }
  std::int64_t place_elements() const { return planes ? 1 : channels() + spread; }
  // Of a plane, or of all channels.
  ir::Dim slice_elements() const { return place.extent * place_elements(); }
  ir::Dim line_elements() const {
    return (planes ? channels() : window_slices()) * slice_elements();
  }
  // From row to row.
  std::int64_t row_elements() const {
    return (sequence ? lines.step : places.step) * place_elements();
  }
  // What tells a row's runs apart, the outermost first.
  struct Counter {
    std::int64_t count = 0;  // at least 2
    ir::Dim stride;          // elements
  };
  std::vector<Counter> runs() const;
  std::int64_t run() const;  // elements that lie dense
  // Lines that lie behind each other for so many lines of output, some more where these are of
  // several images.
  ir::Dim lines_for(const ir::Dim& output) const;

 private:
  bool places_apart() const { return !sequence && (places.dilation > 1 || spread != 0); }
  bool lines_dense() const { return sequence && lines.dilation == 1 && spread == 0; }
};

// nullopt where rows are of another form, or share nothing. `fresh` gives variables that nothing
// else uses; they are declared in `symbols`.
std::optional<WindowedRows> windowed_rows(const ir::ScalarProgram& program,
                                          const ir::Iteration& row, const ir::Iteration& depth,
                                          const std::function<ir::DimLeaf()>& fresh,
                                          ir::SymbolTable& symbols);

// What rows of a form's left operand share as it is packed, and in what runs a row lies in that.
struct SharedRows {
  double reuse = 1;      // rows that read an element
  std::int64_t run = 0;  // elements; 0: nothing is shared
};

// The same, found once, as costs are asked for many shapes. May be shared by threads.
class LeftReuse {
 public:
  // Always of the same form.
  const SharedRows& of(const ir::MatmulForm& form, const ir::SymbolTable& symbols);

 private:
  std::once_flag found_;
  SharedRows shared_;
};

}  // namespace anydim::codegen_cpu
