// Keys and values of a decoder, kept by the model's side from call to call and appended to in
// place: a call neither copies them nor hands them out and in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/inputs.h"
#include "ir/tensor.h"
#include "passes/append_in_place.h"

namespace anydim {

class Model;

// What caches need to know of their model, which they do not keep.
struct Appending {
  std::vector<InputInfo> inputs, outputs;  // as the model has them
  std::vector<passes::AppendedResult> appended;
  std::vector<std::int64_t> longest;  // that the axis of each can become

  bool keeps_input(std::size_t input) const;
  bool keeps_output(std::size_t output) const;
  // What calls with a cache are given, and what they give.
  std::vector<InputInfo> inputs_beside() const;
  std::vector<InputInfo> outputs_beside() const;
};

// What a model compiled with CompileOptions::append_in_place appends to: for each result that is an
// input with something appended along an axis, what has been appended so far. Empty at first. Used
// by one call at a time; several may grow beside each other, one for each sequence or batch.
class KvCache {
 public:
  // Throws Error{Unsupported} where the model was compiled without append_in_place.
  explicit KvCache(const Model& model);

  // The input that is appended to, by its or the result's name. Throws Error{Inputs} for any other
  // name.
  const InputInfo& info(std::string_view name) const;
  // How long the axis is that is appended to; info() says which names there are.
  std::int64_t length(std::string_view name) const;
  // The most of all.
  std::int64_t length() const;
  // Memory is taken for so many at the next call. Without it each cache doubles where it is full.
  void reserve(std::int64_t length) { reserved_ = length; }
  // Forgets all beyond `length`, in all of them: rejected drafts, or 0 for a new sequence. What is
  // left keeps its memory. Throws Error{Inputs} below 0.
  void truncate(std::int64_t length);
  // What has been appended, as a tensor of its own.
  ir::Tensor tensor(std::string_view name) const;
  // Takes a copy of `tensor` in place of what is there. Throws Error{Inputs} for another dtype or
  // rank than the input's.
  void set(std::string_view name, const ir::Tensor& tensor);
  // Held, what is not filled yet included.
  std::int64_t bytes() const;
  bool is_of(const Model& model) const;
  void require_of(const Model& model) const;  // throws Error{Inputs} where it is another's

  // ---- For calls ----
  // `given`: a call's inputs but for those that are appended to. Grows what the call needs to grow,
  // and gives all inputs of the program, which share memory with the cache. Throws Error{Inputs}.
  std::vector<ir::Tensor> begin(std::span<const ir::Tensor> given);
  // The call that began last has ended: leaves those of its results out that are appended to, which
  // are here now.
  void keep(std::vector<ir::Tensor>& results);

 private:
  struct Entry {
    ir::Tensor storage{};     // with room on the axis; rank 0: nothing is held
    std::int64_t length = 0;  // filled, of the axis
  };
  std::size_t position(std::string_view name) const;
  void grow(const std::vector<std::size_t>& members,
            const std::vector<std::vector<std::int64_t>>& wanted);

  std::shared_ptr<const Appending> of_;
  std::vector<Entry> entries_;      // in the order of of_->appended
  std::vector<std::int64_t> next_;  // lengths after the call at work
  std::int64_t reserved_ = 0;
};

// A call that was given all of the model's inputs, with those that are appended to in a cache.
struct CachedCall {
  KvCache cache;
  std::vector<ir::Tensor> inputs;  // the others
};
// Copies what is appended to. Throws what KvCache throws.
CachedCall cached_call(const Model& model, std::span<const ir::Tensor> inputs);

}  // namespace anydim
