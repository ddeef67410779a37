#include "api/kv_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "api/model.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"
#include "runtime/constant_memory.h"

namespace anydim {

namespace {

using Extents = std::vector<std::int64_t>;

// Memory is taken for so many at first, so that short sequences do not grow at every step.
constexpr std::int64_t first_length = 64;

// The part of a tensor that lies below `length` on the axis, and how it lies there: `rows` pieces
// of `row` bytes, each a piece of `stride` bytes further.
struct Rows {
  std::int64_t rows = 1;
  std::size_t row = 0, stride = 0;

  Rows(const ir::Tensor& tensor, std::size_t axis, std::int64_t length) {
    std::size_t element = ir::size_of(tensor.dtype());
    for (std::size_t i = 0; i < tensor.rank(); ++i) {
      if (i < axis) rows *= tensor.dims()[i];
      if (i > axis) element *= static_cast<std::size_t>(tensor.dims()[i]);
    }
    row = static_cast<std::size_t>(length) * element;
    stride = static_cast<std::size_t>(tensor.dims()[axis]) * element;
  }
};

// The first `length` of the axis, from one tensor into another that is as large elsewhere.
void copy_rows(const ir::Tensor& from, ir::Tensor& to, std::size_t axis, std::int64_t length) {
  const Rows source(from, axis, length), target(to, axis, length);
  if (source.row == 0) return;
  const std::byte* read = from.bytes().data();
  std::byte* write = to.mutable_bytes().data();
  for (std::int64_t row = 0; row < source.rows; ++row) {
    std::memcpy(write, read, source.row);
    read += source.stride;
    write += target.stride;
  }
}

}  // namespace

bool Appending::keeps_input(std::size_t input) const {
  return std::ranges::count(appended, input, &passes::AppendedResult::input) > 0;
}

bool Appending::keeps_output(std::size_t output) const {
  return std::ranges::count(appended, output, &passes::AppendedResult::output) > 0;
}

std::vector<InputInfo> Appending::inputs_beside() const {
  std::vector<InputInfo> left;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!keeps_input(i)) left.push_back(inputs[i]);
  return left;
}

std::vector<InputInfo> Appending::outputs_beside() const {
  std::vector<InputInfo> left;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!keeps_output(i)) left.push_back(outputs[i]);
  return left;
}

KvCache::KvCache(const Model& model) : of_(model.appending()) {
  if (of_ == nullptr)
    throw Error(ErrorKind::Unsupported,
                "the model was compiled without append_in_place, so that nothing is appended to a "
                "cache");
  entries_.resize(of_->appended.size());
}

bool KvCache::is_of(const Model& model) const { return of_ == model.appending(); }

void KvCache::require_of(const Model& model) const {
  if (!is_of(model)) throw Error(ErrorKind::Inputs, "the cache is another model's");
}

std::size_t KvCache::position(std::string_view name) const {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const passes::AppendedResult& appended = of_->appended[i];
    const std::string& input = of_->inputs[appended.input].name;
    if (name == input || name == of_->outputs[appended.output].name) return i;
    known.push_back(ir::printable(input));
  }
  throw Error(ErrorKind::Inputs, "nothing is appended to '{}'; what is appended to is {}",
              ir::printable(name), fmt::join(known, ", "));
}

const InputInfo& KvCache::info(std::string_view name) const {
  return of_->inputs[of_->appended[position(name)].input];
}

std::int64_t KvCache::length(std::string_view name) const {
  return entries_[position(name)].length;
}

std::int64_t KvCache::length() const {
  std::int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.length);
  return most;
}

void KvCache::truncate(std::int64_t length) {
  if (length < 0)
    throw Error(ErrorKind::Inputs, "the length of a cache is at least 0, got {}", length);
  for (Entry& entry : entries_) entry.length = std::min(entry.length, length);
}

ir::Tensor KvCache::tensor(std::string_view name) const {
  const std::size_t at = position(name);
  const passes::AppendedResult& appended = of_->appended[at];
  const Entry& entry = entries_[at];
  const InputInfo& input = of_->inputs[appended.input];
  Extents dims = entry.storage.dims();
  if (dims.empty()) dims.assign(input.dims.size(), 0);
  dims[appended.axis] = entry.length;
  ir::Tensor copy(input.dtype, dims);
  if (copy.byte_size() > 0) copy_rows(entry.storage, copy, appended.axis, entry.length);
  return copy;
}

void KvCache::set(std::string_view name, const ir::Tensor& tensor) {
  const std::size_t at = position(name);
  const passes::AppendedResult& appended = of_->appended[at];
  const InputInfo& input = of_->inputs[appended.input];
  if (tensor.dtype() != input.dtype || tensor.rank() != input.dims.size())
    throw Error(ErrorKind::Inputs, "'{}' does not fit: expected {}, got {}", ir::printable(name),
                to_string(input).substr(input.name.size() + 2),
                ir::shape_text(tensor.dtype(), tensor.dims()));
  ir::Tensor copy(tensor.dtype(), tensor.dims());
  tensor.copy_to(copy.mutable_bytes());
  entries_[at] = {std::move(copy), tensor.dims()[appended.axis]};
}

std::int64_t KvCache::bytes() const {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_)
    if (entry.storage.rank() > 0) bytes += static_cast<std::int64_t>(entry.storage.byte_size());
  return bytes;
}

std::vector<ir::Tensor> KvCache::begin(std::span<const ir::Tensor> given) {
  const std::vector<InputInfo>& inputs = of_->inputs;
  const std::vector<passes::AppendedResult>& appended = of_->appended;
  if (given.size() + appended.size() != inputs.size())
    throw Error(ErrorKind::Inputs, "expected {} inputs beside the cache, got {}",
                inputs.size() - appended.size(), given.size());
  std::vector<ir::Tensor> all(inputs.size());
  ir::SymbolValues values;
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (of_->keeps_input(i)) continue;
    all[i] = given[next++];
    for (std::size_t d = 0; d < std::min(inputs[i].dims.size(), all[i].rank()); ++d)
      if (const ir::Dim& dim = inputs[i].dims[d]; dim.kind() == ir::Dim::Kind::Symbol)
        values.try_emplace(dim.leaf().symbol, all[i].dims()[d]);
  }
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const std::vector<ir::Dim>& dims = inputs[appended[e].input].dims;
    const ir::Tensor& storage = entries_[e].storage;
    values.try_emplace(dims[appended[e].axis].leaf().symbol, entries_[e].length);
    for (std::size_t d = 0; d < storage.rank(); ++d)
      if (d != appended[e].axis && dims[d].kind() == ir::Dim::Kind::Symbol)
        values.try_emplace(dims[d].leaf().symbol, storage.dims()[d]);
  }

  const auto value_of = [&](const ir::Dim& dim, const std::string& name) {
    return dim.evaluate([&](const ir::DimLeaf& leaf) {
      const auto found = leaf.is_symbol() ? values.find(leaf.symbol) : values.end();
      if (found != values.end()) return found->second;
      throw Error(
          ErrorKind::Inputs,
          "no input of the call tells the extent {} of '{}': give the cache a tensor to begin with",
          dim.to_string(), ir::printable(name));
    });
  };
  next_.clear();
  std::map<std::size_t, std::vector<std::size_t>> by_room;
  std::vector<Extents> wanted;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const passes::AppendedResult& one = appended[e];
    const InputInfo& input = inputs[one.input];
    const Entry& entry = entries_[e];
    Extents& dims = wanted.emplace_back(entry.storage.dims());
    dims.resize(input.dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (d != one.axis && entry.length == 0) dims[d] = value_of(input.dims[d], input.name);
    next_.push_back(value_of(of_->outputs[one.output].dims[one.axis], input.name));
    dims[one.axis] = std::max(next_.back(), entry.length);
    by_room[one.room].push_back(e);
  }
  for (const auto& [room, members] : by_room) grow(members, wanted);

  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const passes::AppendedResult& one = appended[e];
    const ir::Tensor& storage = entries_[e].storage;
    Extents dims = storage.dims();
    dims[one.axis] = entries_[e].length;
    const auto bytes = static_cast<std::size_t>(ir::byte_count(storage.dtype(), dims));
    all[one.input] =
        ir::Tensor(storage.dtype(), dims, storage.bytes().first(bytes), storage.owner());
    all.resize(std::max({all.size(), one.storage + 1, one.room + 1}));
    all[one.storage] = storage;
    const std::int64_t room = storage.dims()[one.axis] - wanted[e][one.axis];
    all[one.room] = ir::Tensor(ir::DType::Bool, {room, 0});
  }
  return all;
}

// Entries of one room have as much of it.
void KvCache::grow(const std::vector<std::size_t>& members, const std::vector<Extents>& wanted) {
  const auto held = [&](std::size_t e) -> std::int64_t {
    const ir::Tensor& storage = entries_[e].storage;
    const std::size_t axis = of_->appended[e].axis;
    if (storage.rank() == 0) return 0;
    for (std::size_t d = 0; d < storage.rank(); ++d)
      if (d != axis && storage.dims()[d] != wanted[e][d]) return 0;
    return storage.dims()[axis];
  };
  std::int64_t most = 0, least = std::numeric_limits<std::int64_t>::max(), limit = least;
  std::int64_t needed = 0;
  for (const std::size_t e : members) {
    const passes::AppendedResult& one = of_->appended[e];
    most = std::max(most, held(e));
    least = std::min(least, held(e));
    limit = std::min(limit, of_->longest[e]);
    needed = std::max(needed, wanted[e][one.axis]);
  }
  needed = std::max(needed, std::min(reserved_, limit));
  if (least == most && least >= needed) return;
  const std::int64_t room = most >= needed ? most : std::max(first_length, 2 * most);
  const std::int64_t length = std::max(needed, std::min(room, limit));
  // Kernels stream through it as they do through weights.
  runtime::ConstantMemory memory;
  for (const std::size_t e : members) {
    const passes::AppendedResult& one = of_->appended[e];
    Entry& entry = entries_[e];
    if (held(e) == length) continue;
    Extents dims = wanted[e];
    dims[one.axis] = length;
    ir::Tensor storage = memory.allocate(of_->inputs[one.input].dtype, dims);
    if (entry.length > 0) copy_rows(entry.storage, storage, one.axis, entry.length);
    entry.storage = std::move(storage);
  }
}

void KvCache::keep(std::vector<ir::Tensor>& results) {
  for (std::size_t e = 0; e < entries_.size(); ++e) entries_[e].length = next_[e];
  std::vector<ir::Tensor> left;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!of_->keeps_output(i)) left.push_back(std::move(results[i]));
  results = std::move(left);
}

CachedCall cached_call(const Model& model, std::span<const ir::Tensor> inputs) {
  CachedCall call{KvCache(model), {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (model.appending()->keeps_input(i)) call.cache.set(model.inputs()[i].name, inputs[i]);
    else call.inputs.push_back(inputs[i]);
  }
  return call;
}

}  // namespace anydim
