// Latencies at all sizes that a workload has, from those at the few that were measured.
//
// Between two measured sizes a candidate's time follows their line over the logarithm of the size,
// times what the cost model says of its own steps there (tile rows, waves over threads): how far
// its estimate strays from its own line between the same two. What all candidates share of that is
// theirs alike; what is left of a candidate's own counts beyond `believed`, since less than that is
// within the model's error.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tuner/partition.h"

namespace anydim::tuner {

// Sizes of one region's launches with their weights: distinct.
struct KeyWeights {
  std::vector<std::vector<std::int64_t>> keys;
  std::vector<double> weights;
};

// Seconds of a candidate (a position in RegionLatencies::candidates) at any keys by the cost model;
// above 0.
using Estimate = std::function<double(std::size_t candidate, std::span<const std::int64_t> keys)>;

constexpr double believed = 0.05;

// `measured` with a point for each of `sizes`, at their weights; of measured points that are among
// them the times stay. RegionLatencies::measured tells both apart.
RegionLatencies refine(const RegionLatencies& measured, const KeyWeights& sizes,
                       const Estimate& estimate);

// At any keys, from values at points: along the logarithm of the keys, weighted by nearness. Values
// are above 0.
double interpolated(const std::vector<std::vector<std::int64_t>>& points,
                    std::span<const double> values, std::span<const std::int64_t> keys);

// How far apart two sizes are: the sum of differences of the keys' logarithms.
double distance(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

}  // namespace anydim::tuner
