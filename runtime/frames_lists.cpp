// Lists, tuples and function values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "ir/error.h"
#include "runtime/frames.h"

namespace anydim::runtime {

Object::Element Frames::keep(const ir::Code::Argument& argument) {
  Object::Element element;
  auto bytes = static_cast<std::int64_t>(ir::size_of(argument.dtype));
  for (const ir::Code::Slot dim : argument.dims) {
    element.dims.push_back(slot(dim));
    bytes *= element.dims.back();
  }
  element.value = owned(value(argument.buffer), bytes);
  return element;
}

const Object& Frames::object(std::int32_t buffer) const {
  return static_cast<const Object&>(*value(buffer).owner);
}

std::int64_t Frames::position_in(std::int64_t position, std::int64_t count,
                                 const std::string& source) {
  if (position >= -count && position < count) return position < 0 ? position + count : position;
  throw Error(ErrorKind::Inputs, "{}: expected a position from {} to {}, got {}", source, -count,
              count - 1, position);
}

// ---- Lists ----

void Frames::step(const ir::Code::MakeList& make) {
  Object made;
  for (const ir::Code::Argument& argument : make.elements) made.elements.push_back(keep(argument));
  put(make.to, pool_.make(std::move(made)));
}

void Frames::step(const ir::Code::ListInsert& insert) {
  const Object& old = object(insert.list);
  const auto count = static_cast<std::int64_t>(old.elements.size());
  std::int64_t position = insert.position < 0 ? count : slot(insert.position);
  if (position != count) position = position_in(position, count, insert.source);
  Object::Element element = keep(insert.element);
  if (insert.last_use && value(insert.list).owner->references == 1) {
    Value taken = std::exchange(value(insert.list), {});
    auto& elements = static_cast<Object*>(taken.owner)->elements;
    elements.insert(elements.begin() + position, std::move(element));
    put(insert.to, taken);
    return;
  }
  Object made;
  made.elements.reserve(old.elements.size() + 1);
  for (const Object::Element& known : old.elements)
    made.elements.push_back({pool_.share(known.value), known.dims});
  made.elements.insert(made.elements.begin() + position, std::move(element));
  put(insert.to, pool_.make(std::move(made)));
}

void Frames::step(const ir::Code::ListErase& erase) {
  const Object& old = object(erase.list);
  const auto count = static_cast<std::int64_t>(old.elements.size());
  const std::int64_t position =
      position_in(erase.position < 0 ? -1 : slot(erase.position), count, erase.source);
  Object made;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == position) continue;
    const Object::Element& known = old.elements[static_cast<std::size_t>(i)];
    made.elements.push_back({pool_.share(known.value), known.dims});
  }
  put(erase.to, pool_.make(std::move(made)));
}

void Frames::step(const ir::Code::ListAt& at) {
  const Object& from = object(at.list);
  const auto count = static_cast<std::int64_t>(from.elements.size());
  const std::int64_t position =
      position_in(at.position < 0 ? at.element : slot(at.position), count, at.source);
  const Object::Element& element = from.elements[static_cast<std::size_t>(position)];
  for (const ir::Code::Opened& extent : at.opened)
    slot(extent.slot) = element.dims[static_cast<std::size_t>(extent.axis)];
  put(at.to, pool_.share(element.value));
}

void Frames::step(const ir::Code::ListLength& length) {
  slot(length.slot) = static_cast<std::int64_t>(object(length.list).elements.size());
}

void Frames::step(const ir::Code::ListConcat& concat) {
  const std::vector<Object::Element>& elements = object(concat.list).elements;
  if (elements.empty())
    throw Error(ErrorKind::Inputs, "{}: expected a list of at least one tensor, got an empty one",
                concat.source);
  const std::vector<std::int64_t>& first = elements[0].dims;
  const auto axis = static_cast<std::size_t>(concat.axis);
  // `before` times the rows of every element one after the other, each `along * after` elements
  // long.
  std::int64_t before = 1, after = 1, total = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    (i < axis ? before : after) *= !concat.new_axis && i == axis ? 1 : first[i];
  std::vector<std::int64_t> lengths;
  for (const Object::Element& element : elements) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (element.dims[i] == first[i] || (!concat.new_axis && i == axis)) continue;
      throw Error(ErrorKind::Inputs,
                  "{}: the list's tensors have shapes ({}) and ({}); expected equal extents{}",
                  concat.source, fmt::join(first, ", "), fmt::join(element.dims, ", "),
                  concat.new_axis ? "" : fmt::format(" but for dimension {}", axis));
    }
    lengths.push_back(concat.new_axis ? 1 : element.dims[axis]);
    total += lengths.back();
  }
  std::vector<std::int64_t> dims = first;
  if (concat.new_axis) dims.insert(dims.begin() + concat.axis, total);
  else dims[axis] = total;
  const auto unit = static_cast<std::int64_t>(ir::size_of(concat.dtype));
  Value result = take(ir::byte_count(concat.dtype, dims));
  const auto row_bytes = static_cast<std::size_t>(total * after * unit);
  std::byte* to = result.data;
  for (std::size_t e = 0; e < elements.size(); ++e) {
    const auto bytes = static_cast<std::size_t>(lengths[e] * after * unit);
    if (bytes > 0 && before > 0)
      memory_.copy_rows(to, row_bytes, elements[e].value.data, bytes,
                        static_cast<std::size_t>(before));
    to += bytes;
  }
  for (const ir::Code::Opened& extent : concat.opened)
    slot(extent.slot) = dims[static_cast<std::size_t>(extent.axis)];
  put(concat.to, result);
}

void Frames::step(const ir::Code::MakeFunction& make) {
  Object made;
  made.function = make.function;
  for (const ir::Code::Argument& argument : make.arguments) made.elements.push_back(keep(argument));
  put(make.to, pool_.make(std::move(made)));
}

}  // namespace anydim::runtime
