// What makes two regions one kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shapes/shape_program.h"

namespace anydim::ir {

// The region's body as text with values numbered in order of appearance, and the positions of its
// weights. It covers types, ops, attributes, the bits of constants, symbols with ranges,
// divisibility and bounds (kernels rely on them); it leaves out names of values and results,
// sources, the reasons of ranges and where constants come from. Two regions with equal identities
// may share kernels. The maker of a region names its symbols s0, s1, ... in order of first
// appearance, which makes equal work print equally.
std::string identity_of(const Region& region);

// Sets region.identity, and forgets the loop form, which was that of the body before.
void seal(Region& region);

// Dims over the region's symbols; the symbols' values in their order are the leaves, as kernels get
// them.
ShapeProgram shapes_over(const Region& region, std::vector<Dim> expressions);

// A dim at values of the region's keys, in order: a constant, or what a key is; nullopt: neither.
// Fewer values than keys leave the last ones unknown.
std::optional<std::int64_t> known_at(const Region& region, const Dim& dim,
                                     std::span<const std::int64_t> keys);

// What an estimate takes a dim for: known_at, or by the key that it is a multiple of or that is a
// multiple of it, as keys leave constants out; else `middling`.
double estimated_at(const Region& region, const Dim& dim, std::span<const std::int64_t> keys,
                    double middling = 4096);

// Bytes that one launch must read and write at least: every buffer once, but no more than `points`
// elements of it, which a buffer of unknown size is taken to have.
double traffic_bytes(const Region& region, double points, std::span<const std::int64_t> keys);

// Whether the region's one result is that of an overwrite in place: the kernel writes only what is
// new.
bool writes_part(const Region& region);
// The parameter in whose memory the region's one result lies, where it writes a part. Nothing: the
// result has memory of its own.
std::optional<std::size_t> parameter_in_place(const Region& region);

// Narrows the symbols that are keys to their intervals of the bucket.
void narrow(SymbolTable& symbols, const Region& region, const Bucket& bucket);

// Values that a dim takes within the bucket: its bounds, and the intervals of the keys that it is
// or is a product with.
Interval bounds_in(const Region& region, const Bucket& bucket, const Dim& dim,
                   const SymbolTable& symbols);

}  // namespace anydim::ir
