// Resizing, grids, boxes and windows that are moved, with what ONNX Runtime 1.31 gives for them.
#include <limits>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

// Small numbers in no simple order.
ir::Tensor counted(const Dims& dims) {
  ir::Tensor tensor(ir::DType::F32, dims);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set_real(i, static_cast<double>(i * 7 % 11 - 5));
  return tensor;
}

CaseOperand constant(const ir::Tensor& tensor) { return {tensor, true}; }

}  // namespace

void add_sampling_cases(std::vector<ValueCase>& cases) {
  const auto sampled = [&](const CaseOperand& image, const CaseOperand& grid,
                           const std::string& mode, const std::string& padding,
                           std::int64_t corners, const ir::Tensor& wanted) {
    const auto attributes = [=](NodeBuilder& node) {
      node.string("mode", mode).string("padding_mode", padding).integer("align_corners", corners);
    };
    cases.push_back({"GridSample", 20, {image, grid}, attributes, {wanted}});
  };
  const CaseOperand volume{counted({1, 1, 2, 3, 4}), false, "n.dhw"},
      places{reals({1, 1, 1, 3, 3}, {-1.2, 0.3, 0.1, 0.25, -0.5, 0.75, 0.9, 1.5, -1.75}), false,
             "nabc."};
  const auto three = [](const std::vector<double>& wanted) {
    return reals({1, 1, 1, 1, 3}, wanted);
  };
  sampled(volume, places, "linear", "zeros", 0, three({-0.068, 2.8125, 0}));
  sampled(volume, places, "linear", "border", 1, three({-0.885, 2.125, -4.4}));
  sampled(volume, places, "nearest", "reflection", 1, three({-3, 5, -5}));
  // These two by ONNX's reference evaluator.
  sampled(volume, places, "cubic", "zeros", 0, three({-0.08592212, 4.08815, -0.04500632}));
  const CaseOperand lines{reals({1, 2, 5}, {-5, 2, -2, 5, 1, -3, 4, 0, -4, 3}), false, "nc."},
      points{reals({1, 3, 1}, {-1.2, 0.3, 0.95}), false, "na."};
  sampled(lines, points, "cubic", "reflection", 1,
          reals({1, 2, 3}, {-2.752, 2.427999, 1.132251, -0.752, -3.492001, 2.82425}));

  // What is no number, or infinite, names the first edge.
  const double none = std::numeric_limits<double>::quiet_NaN(),
               far = std::numeric_limits<double>::infinity();
  const CaseOperand flat{counted({1, 1, 3, 4}), false, "n.hw"},
      nowhere{reals({1, 1, 3, 2}, {none, none, none, 0.3, -far, far}), false, "nab."};
  sampled(flat, nowhere, "linear", "zeros", 0, reals({1, 1, 1, 3}, {-1.25, -0.625, -1.25}));
  sampled(flat, nowhere, "linear", "border", 1, reals({1, 1, 1, 3}, {-5, -0.5, -5}));

  const CaseOperand picture{counted({1, 2, 4, 5}), false, "n.hw"};
  cases.push_back(
      {"RoiAlign",
       16,
       {picture, {reals({2, 4}, {0, 0, 4, 3, 1, 0.5, 3, 9})}, {integers({2}, {0, 0})}},
       [](NodeBuilder& node) {
         node.integer("output_height", 2).integer("output_width", 1).integer("sampling_ratio", 2);
       },
       {reals({2, 2, 2, 1}, {-0.234375, -1.140625, 0.375, -0.53125, 1.140625, 0, 1.0625, 0})}});
  // As many samples as a box is large, of boxes of three sizes, one of them without any.
  const auto own = [&](const char* mode, const std::vector<double>& wanted) {
    cases.push_back(
        {"RoiAlign",
         16,
         {picture,
          {reals({3, 4}, {0, 0, 4, 3, 1, 0.5, 3, 9, 2, 2, 2, 3})},
          {integers({3}, {0, 0, 0})}},
         [mode](NodeBuilder& node) { node.integer("output_height", 2).string("mode", mode); },
         {reals({3, 2, 2, 1}, wanted)}});
  };
  own("avg", {-0.234375, -1.140625, 0.375, -0.53125, 0.3175, 0, 0.92, 0, 0, 0, 0, 0});
  own("max", {5, 2.5, 3.125, 3.125, 4, 0, 5, 0, 0, 0, 0, 0});
  const CaseOperand pair{counted({2, 1, 3, 3})},
      second{integers({1}, std::vector<std::int64_t>{1})};
  cases.push_back({"RoiAlign",
                   10,
                   {pair, {reals({1, 4}, {-2, 0, 3, 5})}, second},
                   [](NodeBuilder& node) {
                     node.integer("output_height", 2)
                         .integer("output_width", 2)
                         .integer("sampling_ratio", 1)
                         .real("spatial_scale", 0.5F);
                   },
                   {reals({1, 1, 2, 2}, {2.375, -1.125, 1.125, -2.375})}});
  cases.push_back({"RoiAlign",
                   16,
                   {pair, {reals({1, 4}, {0, 0, 3, 3})}, second},
                   [](NodeBuilder& node) {
                     node.integer("output_height", 1)
                         .integer("output_width", 2)
                         .integer("sampling_ratio", 2)
                         .string("mode", "max")
                         .string("coordinate_transformation_mode", "output_half_pixel");
                   },
                   {reals({1, 1, 1, 2}, {0.9375, 4})}});
  // Beside the image, the whole of it, nothing of it, and edges in the wrong order.
  const CaseOperand pictures{counted({2, 2, 4, 5}), false, "n.hw"},
      cut{reals({4, 5}, {0, 0, 0, 4, 3, 1, 1, -3, 3, 9, 1, 9, 9, 12, 12, 0, 3, 2, 1, 0}), false,
          "b."};
  cases.push_back({"MaxRoiPool",
                   16,
                   {pictures, cut},
                   [](NodeBuilder& node) { node.integers("pooled_shape", {2, 1}); },
                   {reals({4, 2, 2, 1}, {5, 5, 5, 5, 5, 5, 4, 2, 0, 0, 0, 0, -2, -2, -5, -5})}});
  cases.push_back(
      {"MaxRoiPool",
       16,
       {pictures, cut},
       [](NodeBuilder& node) { node.integers("pooled_shape", {2, 2}).real("spatial_scale", 0.5F); },
       {reals({4, 2, 2, 2}, {4, 4, 4, 4, 5, 1, 5, 3, -2, 5, 2, -2, 4,  2,  -1, 4,
                             0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0,  -3, -3, -3, -3})}});
  cases.push_back(
      {"DeformConv",
       19,
       {{counted({1, 2, 3, 3}), false, "n.hw"},
        constant(counted({2, 1, 2, 2})),
        {reals({1, 8, 2, 2}, {-1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1, 0, -1, 0.75, -0.25,
                              -1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1, 0, -1, 0.75, -0.25,
                              -1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1, 0, -1, 0.75}),
         false, "n.pq"},
        constant(reals({2}, {1, -2})),
        {reals({1, 4, 2, 2},
               {-2.5, 1, -1, 2.5, 0.5, -1.5, 2, 0, -2, 1.5, -0.5, -2.5, 1, -1, 2.5, 0.5}),
         false, "n.pq"}},
       [](NodeBuilder& node) { node.integer("group", 2); },
       {reals({1, 2, 2, 2}, {-8.75, 13.375, 37.75, -6.03125, 0, -10.8125, -11.75, -22.625})}});
  const CaseOperand theta{reals({1, 2, 3}, {1, 0.5, 0.25, -1, 2, 0}), false, "n.."};
  cases.push_back({"AffineGrid",
                   20,
                   {theta, {integers({4}, {1, 1, 2, 3}), false, "."}},
                   no_attributes,
                   {reals({1, 2, 3, 2}, {-0.6666667, -0.3333333, 0, -1, 0.6666667, -1.666667,
                                         -0.1666667, 1.666667, 0.5, 1, 1.166667, 0.3333333})}});
  cases.push_back(
      {"AffineGrid",
       20,
       {theta, constant(integers({4}, {1, 1, 2, 3}))},
       [](NodeBuilder& node) { node.integer("align_corners", 1); },
       {reals({1, 2, 3, 2}, {-1.25, -1, -0.25, -2, 0.75, -3, -0.25, 3, 0.75, 2, 1.75, 1})}});
  cases.push_back({"Resize",
                   19,
                   {{counted({1, 1, 1, 7}), false, "n.hw"},
                    left_out,
                    {reals({1}, std::vector<double>{0.4}), false, "."}},
                   [](NodeBuilder& node) {
                     node.string("mode", "cubic")
                         .integer("antialias", 1)
                         .integers("axes", {3})
                         .integer("exclude_outside", 1)
                         .real("cubic_coeff_a", -0.5F);
                   },
                   {reals({1, 1, 1, 2}, {-1.245039, 1.557437})}});
  cases.push_back({"Resize",
                   19,
                   {{counted({1, 1, 4, 6}), false, "n.hw"},
                    left_out,
                    left_out,
                    constant(integers({2}, {2, 2}))},
                   [](NodeBuilder& node) {
                     node.string("mode", "linear")
                         .integer("antialias", 1)
                         .integers("axes", {2, 3})
                         .string("coordinate_transformation_mode", "align_corners");
                   },
                   {reals({1, 1, 2, 2}, {-1.777778, -1.722223, -0.05555558, 0.6111112})}});
  cases.push_back({"Resize",
                   18,
                   {{counted({1, 1, 2, 3}), false, "n.hw"},
                    left_out,
                    left_out,
                    {integers({2}, {5, 4}), false, "."}},
                   [](NodeBuilder& node) {
                     node.integers("axes", {3, 2}).string("keep_aspect_ratio_policy", "not_larger");
                   },
                   {reals({1, 1, 3, 5}, {-5, -5, 2, -2, -2, -5, -5, 2, -2, -2, 5, 5, 1, -3, -3})}});
  cases.push_back(
      {"Resize",
       18,
       {{counted({1, 1, 2, 3}), false, "n.hw"}, left_out, constant(reals({2}, {1.5, 2}))},
       [](NodeBuilder& node) { node.integers("axes", {3, 2}).string("mode", "linear"); },
       {reals({1, 1, 4, 4}, {-5, -1.5, 1.333333, -1.333333, -2.5, -0.375, 1.083333, -1.583333, 2.5,
                             1.875, 0.5833335, -2.083333, 5, 3, 0.3333335, -2.333333})}});
  cases.push_back(
      {"GridSample",
       17,
       {{pattern({1, 1, 3, 4}, 1), false, "b.hw"}, {pattern({1, 2, 2, 2}, 2), false, "b..."}},
       [](NodeBuilder& node) {
         node.string("mode", "bilinear")
             .string("padding_mode", "border")
             .integer("align_corners", 1);
       },
       {reals({1, 1, 2, 2}, {0.125, 1, 0, 0.75})},
       "com.microsoft"});
}

}  // namespace anydim::frontends
