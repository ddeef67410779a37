// Convolutions with fewer multiplications.
//
// A convolution of 3 x 3 windows with steps of 1, any dilations and many channels, which is a
// product over windows with a constant weight, becomes sums of its image's elements (4 x 4 of
// them for each 2 x 2 results), a batch of 16 products with a weight that is made of the constant
// when it is read, and sums of their elements: 16 multiplications a channel pair where there were
// 36. The minimal filtering F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks" (2016); its results differ in the last places from sums in the model's order,
// and an infinity or NaN is NaN in all results of its tiles, also of windows beside it. Only f32
// that is multiplied as f32, and only where the backend's products are bound by multiplications
// (Backend::saves_multiplications). Types must be inferred; layouts are final.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/expand.h"
#include "ir/loops/scalar_access.h"
#include "passes/binding_writer.h"
#include "passes/pass.h"
#include "passes/pattern.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A tile is `results` x `results` results of one image and channel, `taps` x `taps` elements of the
// image and as many products.
constexpr std::size_t window = 3, results = 2, taps = results + window - 1;
using Row = std::array<ValueId, taps>;
template <std::size_t size>
using Grid = std::array<std::array<ValueId, size>, size>;
constexpr std::int64_t places_of_window = window * window;
using Integers = std::vector<std::int64_t>;
// Fewer channels in or out leave too few multiplications a moved element.
constexpr std::int64_t fewest_channels = 64;
// Fewer tiles of an image read more of the weight than they multiply less.
constexpr std::int64_t fewest_tiles = 8;
// Products that tiles may take at most of those that the convolution has.
constexpr double most_of_products = 0.8;
// Tiles and their products together are four times as large as the image and the result: of one
// image, more bytes than these are too many. Where none knows how large images are, they are taken
// to be small where there are as many channels as this.
constexpr std::int64_t most_bytes = std::int64_t{64} << 20, channels_of_small_images = 128,
                       most_known = default_symbol_maximum / 4;
// Where none knows how large images are, those that wider dilations are for are taken to be small.
constexpr std::int64_t most_dilation_of_any = 4;
// Far below what overflows when tiles are measured with it.
constexpr std::int64_t most_dilation = 1 << 16, most_padding = std::int64_t{1} << 32;

// The weight of the products, [taps * taps, C, K], from that of the convolution, [K, 9 C] with
// columns (3, 3, C): G g G' for each pair of channels, with the rows (1, 0, 0), (1, 1, 1) / 2, (1,
// -1, 1) / 2, (0, 0, 1) of G.
class Filter : public TensorSource {
 public:
  // `outputs`: K.
  Filter(Tensor weight, std::int64_t outputs) : weight_(std::move(weight)), outputs_(outputs) {}

  void read(std::span<std::byte> to) const override {
    const Tensor opened = weight_.opened();
    const auto from = opened.as<float>();
    const std::span into(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
    const auto outputs = static_cast<std::size_t>(outputs_), columns = from.size() / outputs,
               channels = columns / places_of_window;
    // Channels lie side by side here and outputs there: of a block of both, each output's channels
    // are transformed together and then turned.
    std::array<float, taps * taps * block * block> transformed_block;
    for (std::size_t first_c = 0; first_c < channels; first_c += block)
      for (std::size_t first_k = 0; first_k < outputs; first_k += block) {
        const std::size_t cs = std::min(block, channels - first_c),
                          ks = std::min(block, outputs - first_k);
        for (std::size_t k = 0; k < ks; ++k)
          transform(from.data() + (first_k + k) * columns + first_c, channels, cs,
                    transformed_block.data() + k * block);
        for (std::size_t tap = 0; tap < taps * taps; ++tap)
          for (std::size_t c = 0; c < cs; ++c) {
            float* line = into.data() + (tap * channels + first_c + c) * outputs + first_k;
            for (std::size_t k = 0; k < ks; ++k)
              line[k] = transformed_block[(tap * block + k) * block + c];
          }
      }
  }

 private:
  static constexpr std::size_t block = 16;

  // Of one output and `count` channels, at most a block: the places of their windows lie `apart`
  // elements from each other, their taps a square of blocks.
  static void transform(const float* window_at, std::size_t apart, std::size_t count, float* into) {
    using Line = std::array<double, block>;
    std::array<std::array<Line, taps>, window> along{};  // the columns of G g'
    for (std::size_t i = 0; i < window; ++i)
      for (std::size_t c = 0; c < count; ++c) {
        const auto column =
            transformed(window_at[3 * i * apart + c], window_at[(3 * i + 1) * apart + c],
                        window_at[(3 * i + 2) * apart + c]);
        for (std::size_t j = 0; j < taps; ++j) along[i][j][c] = column[j];
      }
    for (std::size_t j = 0; j < taps; ++j)
      for (std::size_t c = 0; c < block; ++c) {
        const auto down = transformed(along[0][j][c], along[1][j][c], along[2][j][c]);
        for (std::size_t i = 0; i < taps; ++i)
          into[(i * taps + j) * block * block + c] = static_cast<float>(down[i]);
      }
  }
  static std::array<double, taps> transformed(double a, double b, double c) {
    return {a, (a + b + c) / 2, (a - b + c) / 2, c};
  }

  Tensor weight_;
  std::int64_t outputs_;
};

struct Convolution {
  ValueId image = no_value;  // what windows lie over
  std::vector<std::int64_t> dilations;
  std::vector<Dim> places;  // of the result
  Dim images;
  std::int64_t channels = 0, outputs = 0;
  Tensor weight;  // outputs * 9 * channels elements
};

// Tiles of all images: those whose first results are side by side follow each other where windows
// are dilated.
struct Tiles {
  explicit Tiles(const Convolution& convolution)
      : down(ceil_div(convolution.places[0],
                      static_cast<std::int64_t>(results) * convolution.dilations[0])),
        across(ceil_div(convolution.places[1],
                        static_cast<std::int64_t>(results) * convolution.dilations[1])),
        of_image(down * convolution.dilations[0] * across * convolution.dilations[1]),
        all(convolution.images * of_image) {
    for (const Dim& dim : {convolution.images, down, Dim(convolution.dilations[0]), across,
                           Dim(convolution.dilations[1])})
      if (!dim.is_constant(1)) longer.push_back(dim);
  }

  // `first` values of each tile and `last` channels. Dims of 1 between them, which take time to
  // compile and say nothing, are left out.
  std::vector<Dim> dims(std::int64_t first, std::int64_t last) const {
    std::vector<Dim> result{first};
    result.insert(result.end(), longer.begin(), longer.end());
    result.emplace_back(last);
    return result;
  }

  Dim down, across, of_image, all;
  std::vector<Dim> longer{};  // the tiles' dims but those of 1
};

class Rewriter {
 public:
  explicit Rewriter(Function& function) : function_(function), graph_(function, function.body) {}

  bool run() {
    std::vector<Binding> made;
    bool changed = false;
    for (const Binding& binding : function_.body.bindings) {
      const auto found = convolution(binding);
      if (!found) {
        made.push_back(binding);
        continue;
      }
      BindingWriter writer(function_, made, binding.source,
                           function_.values[binding.results[0]].name + "_tiles");
      write(*found, binding.results[0], writer);
      changed = true;
    }
    function_.body.bindings = std::move(made);
    return changed;
  }

 private:
  const std::vector<Dim>& dims(ValueId value) const { return function_.tensor_type(value).dims; }

  // What a value is a reshape of, or itself.
  ValueId unshaped(ValueId value) const {
    const Binding* move = graph_.definition(value);
    return move != nullptr && info(move->op).has(traits::reshapes) ? move->operands[0] : value;
  }
  const Binding* transposed(ValueId value, const std::vector<std::size_t>& order) const {
    const Binding* move = graph_.applied(value, Op::transpose);
    return move != nullptr && permutation(*move, order.size()) == order ? move : nullptr;
  }

  // A product over rows of windows, [N, H W, 9 C], with the turned weight.
  std::optional<Convolution> convolution(const Binding& product) const {
    if (product.op != Op::matmul || function_.tensor_type(product.results[0]).dtype != DType::F32 ||
        dims(product.operands[0]).size() != 3)
      return std::nullopt;
    Convolution found;
    const Binding* moved = transposed(unshaped(product.operands[0]), {0, 1, 2, 4, 5, 3});
    const Binding* windows =
        moved == nullptr ? nullptr : graph_.applied(moved->operands[0], Op::windows);
    if (windows == nullptr) return std::nullopt;
    if (integers_attribute(*windows, "sizes") != std::vector<std::int64_t>{window, window} ||
        integers_or_ones(*windows, "strides", 2) != std::vector<std::int64_t>{1, 1} ||
        normalised_axes(*windows, 4) != std::vector<std::size_t>{1, 2})
      return std::nullopt;
    found.image = windows->operands[0];
    found.dilations = integers_or_ones(*windows, "dilations", 2);
    if (std::ranges::max(found.dilations) > most_dilation) return std::nullopt;
    const std::vector<Dim>& all = dims(windows->results[0]);
    found.images = all[0];
    found.places = {all[1], all[2]};
    const auto channels = all[3].constant();
    const Binding* turn = transposed(product.operands[1], {1, 0});
    const Binding* constant =
        turn == nullptr ? nullptr : graph_.applied(unshaped(turn->operands[0]), Op::constant);
    if (constant == nullptr || !channels) return std::nullopt;
    found.channels = *channels;
    found.outputs = dims(turn->operands[0])[0].constant().value_or(0);
    const Tensor& weight = tensor_attribute(*constant, "value");
    const std::vector<Dim> expected{found.images, found.places[0] * found.places[1],
                                    found.channels * places_of_window};
    if (dims(product.operands[0]) != expected ||
        weight.elements() != found.outputs * found.channels * places_of_window ||
        !is_worth_it(found))
      return std::nullopt;
    found.weight = weight;
    return found;
  }

  bool is_worth_it(const Convolution& convolution) const {
    const std::int64_t channels = std::min(convolution.channels, convolution.outputs);
    if (channels < fewest_channels) return false;
    const std::int64_t tiles = bounds(Tiles(convolution).of_image, function_.symbols).high;
    if (tiles < fewest_tiles) return false;
    // Wide dilations reach over small images: tiles that are mostly border save nothing.
    const auto places = (convolution.places[0] * convolution.places[1]).constant();
    if (!places && std::ranges::max(convolution.dilations) > most_dilation_of_any) return false;
    if (places && most_of_products * static_cast<double>(*places) * places_of_window <
                      static_cast<double>(tiles) * taps * taps)
      return false;
    const std::int64_t all = convolution.channels + convolution.outputs,
                       bytes_of_tile = static_cast<std::int64_t>(taps * taps * sizeof(float)) * all;
    if (tiles <= most_bytes / bytes_of_tile) return true;
    return tiles > most_known && channels >= channels_of_small_images;
  }

  // Zeros around what the windows lie over, so that they fill whole tiles; what
  // reaches over the image belongs to results that are cut off.
  ValueId padded(const Convolution& convolution, BindingWriter& writer) const {
    ValueId source = convolution.image;
    Integers before{0, 0}, after{0, 0};
    if (const Binding* pad = graph_.applied(source, Op::pad);
        pad != nullptr && pad->operands.size() == 1 &&
        string_attribute(*pad, "mode") == "constant" &&
        normalised_axes(*pad, 4) == std::vector<std::size_t>{1, 2} &&
        std::ranges::max(integers_attribute(*pad, "after")) < most_padding) {
      source = pad->operands[0];
      before = integers_attribute(*pad, "before");
      after = integers_attribute(*pad, "after");
    }
    for (std::size_t i = 0; i < after.size(); ++i)
      after[i] += static_cast<std::int64_t>(results) * convolution.dilations[i] - 1;
    return writer.emit(Op::pad, {source},
                       {{"axes", Integers{1, 2}}, {"before", before}, {"after", after}});
  }

  // B' d B of each tile, [taps * taps, tiles, C].
  ValueId transformed_image(const Convolution& convolution, const Tiles& tiles,
                            BindingWriter& writer) const {
    const auto& [d, e] = std::tie(convolution.dilations[0], convolution.dilations[1]);
    const auto side = static_cast<std::int64_t>(taps), step = static_cast<std::int64_t>(results);
    const ValueId windows = writer.emit(Op::windows, {padded(convolution, writer)},
                                        {{"axes", Integers{1, 2}},
                                         {"sizes", Integers{side * d, side * e}},
                                         {"strides", Integers{step * d, step * e}}});
    Grid<taps> elements{};
    for (std::size_t i = 0; i < taps; ++i)
      for (std::size_t j = 0; j < taps; ++j) {
        const auto down = static_cast<std::int64_t>(i) * d,
                   across = static_cast<std::int64_t>(j) * e;
        const ValueId part = writer.emit(Op::strided_slice, {windows},
                                         {{"axes", Integers{4, 5}},
                                          {"starts", Integers{down, across}},
                                          {"ends", Integers{down + d, across + e}}});
        const ValueId laid =
            writer.emit(Op::transpose, {part}, {{"perm", Integers{0, 1, 4, 2, 5, 3}}});
        elements[i][j] = writer.reshaped(laid, tiles.dims(1, convolution.channels));
      }
    const Grid<taps> sums = along_both<taps>(elements, [&](const Row& x) {
      return std::array{writer.emit(Op::sub, {x[0], x[2]}), writer.emit(Op::add, {x[1], x[2]}),
                        writer.emit(Op::sub, {x[2], x[1]}), writer.emit(Op::sub, {x[1], x[3]})};
    });
    return writer.reshaped(stacked(sums, writer), {side * side, tiles.all, convolution.channels});
  }

  void write(const Convolution& convolution, ValueId result, BindingWriter& writer) const {
    const Tiles tiles(convolution);
    const auto side = static_cast<std::int64_t>(taps), step = static_cast<std::int64_t>(results);
    const auto& [d, e] = std::tie(convolution.dilations[0], convolution.dilations[1]);
    const ValueId weight =
        writer.constant({DType::F32,
                         {side * side, convolution.channels, convolution.outputs},
                         std::make_shared<Filter>(convolution.weight, convolution.outputs)});
    const ValueId products =
        writer.emit(Op::matmul, {transformed_image(convolution, tiles, writer), weight});
    const ValueId parted = writer.reshaped(products, tiles.dims(side * side, convolution.outputs));
    Grid<taps> elements{};
    for (std::size_t i = 0; i < taps; ++i)
      for (std::size_t j = 0; j < taps; ++j) elements[i][j] = part(parted, i * taps + j, writer);
    // A' m A
    const auto tile = along_both<results>(elements, [&](const Row& x) {
      const ValueId both = writer.emit(Op::add, {x[0], x[1]}),
                    apart = writer.emit(Op::sub, {x[1], x[2]});
      return std::array{writer.emit(Op::add, {both, x[2]}), writer.emit(Op::sub, {apart, x[3]})};
    });
    // [2, 2, N, down, d, across, e, K], of which a tile's rows and columns go between.
    const ValueId apart = writer.reshaped(
        stacked(tile, writer),
        {step, step, convolution.images, tiles.down, d, tiles.across, e, convolution.outputs});
    const ValueId laid =
        writer.emit(Op::transpose, {apart}, {{"perm", Integers{2, 3, 0, 4, 5, 1, 6, 7}}});
    const ValueId whole = writer.reshaped(laid, {convolution.images, tiles.down * (step * d),
                                                 tiles.across * (step * e), convolution.outputs});
    const auto& [height, width] = std::tie(convolution.places[0], convolution.places[1]);
    const ValueId begins = writer.shape({0, 0}), ends = writer.shape({height, width}),
                  axes = writer.shape({1, 2});
    const ValueId cut = writer.emit(Op::dyn_strided_slice, {whole, begins, ends, axes});
    const ValueId shape = writer.shape({convolution.images, height * width, convolution.outputs});
    writer.emit(Op::dyn_reshape, {cut, shape}, {{"zero_copies", std::int64_t{0}}}, result);
  }

  // The values, of equal dims that begin with 1, one behind the other.
  template <std::size_t size>
  static ValueId stacked(const Grid<size>& values, BindingWriter& writer) {
    std::vector<ValueId> all;
    for (const auto& row : values) all.insert(all.end(), row.begin(), row.end());
    return writer.emit(Op::concat, std::move(all), {{"axis", std::int64_t{0}}});
  }

  // The part of a value at one index of its first axis.
  static ValueId part(ValueId value, std::size_t index, BindingWriter& writer) {
    const auto start = static_cast<std::int64_t>(index);
    return writer.emit(
        Op::strided_slice, {value},
        {{"axes", Integers{0}}, {"starts", Integers{start}}, {"ends", Integers{start + 1}}});
  }

  // One transformation of four elements into `size`, of every column, then of every row.
  template <std::size_t size, typename Transformation>
  static Grid<size> along_both(const Grid<taps>& elements, const Transformation& transformation) {
    std::array<Row, size> down{};
    for (std::size_t j = 0; j < taps; ++j) {
      const std::array<ValueId, size> column =
          transformation(Row{elements[0][j], elements[1][j], elements[2][j], elements[3][j]});
      for (std::size_t i = 0; i < size; ++i) down[i][j] = column[i];
    }
    Grid<size> both{};
    for (std::size_t i = 0; i < size; ++i) both[i] = transformation(down[i]);
    return both;
  }

  Function& function_;
  const PatternGraph graph_;
};

}  // namespace

void winograd(Module& module, PassContext& context) {
  if (context.options.precision != DType::F32 ||
      (context.backend != nullptr && !context.backend->saves_multiplications()))
    return;
  rewrite_functions(module, [](Function& function) { return Rewriter(function).run(); });
}

}  // namespace anydim::passes
