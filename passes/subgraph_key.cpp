#include "passes/subgraph_key.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace anydim::passes {

using namespace ir;

namespace {

class KeyMaker {
 public:
  KeyMaker(const Function& function, const StoredValues& stored)
      : function_(function), stored_(stored) {}

  void add(const Binding& binding) {
    add_word(static_cast<std::uint64_t>(binding.op) << 32 | binding.operands.size() << 16 |
             binding.results.size());
    for (ValueId operand : binding.operands) add(operand);
    for (ValueId result : binding.results) add(result);
    add(binding.dims);
    add_word(binding.attributes.size());
    for (const auto& [name, attribute] : binding.attributes) {
      add(std::string_view(name));
      add(attribute);
    }
  }

  // A number in order of first appearance, and its type at that place.
  void add(ValueId value) {
    if (value == no_value) return add_word(value);
    auto [found, fresh] = numbers_.emplace(value, numbers_.size());
    add_word(found->second);
    if (!fresh) return;
    const TensorType& type = function_.tensor_type(value);
    constexpr unsigned stored_bits = 2;
    add_word(static_cast<std::uint64_t>(type.dtype) << stored_bits |
             static_cast<std::uint64_t>(value < stored_.size() ? stored_[value] : Stored::No));
    add(type.dims);
  }

  SubgraphKey take() { return std::move(key_); }

 private:
  void add_word(std::uint64_t word) { key_.words.push_back(word); }

  void add(const std::vector<Dim>& dims) {
    add_word(dims.size());
    key_.dims.insert(key_.dims.end(), dims.begin(), dims.end());
  }

  void add(std::string_view text) {
    add_word(text.size());
    for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 8))) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), std::min<std::size_t>(text.size(), 8));
      add_word(word);
    }
  }

  void add(double number) { add_word(std::bit_cast<std::uint64_t>(number)); }
  void add(std::int64_t number) { add_word(static_cast<std::uint64_t>(number)); }
  void add(DType dtype) { add_word(static_cast<std::uint64_t>(dtype)); }
  void add(const std::string& text) { add(std::string_view(text)); }
  template <typename Number>
  void add(const std::vector<Number>& numbers) {
    add_word(numbers.size());
    for (const Number number : numbers) add(number);
  }
  void add(const Tensor& tensor) {
    add(tensor.dtype());
    add(tensor.dims());
    add(std::string_view(reinterpret_cast<const char*>(tensor.bytes().data()),
                         tensor.bytes().size()));
  }
  void add(const Attribute& attribute) {
    add_word(attribute.index());
    std::visit([&](const auto& held) { add(held); }, attribute);
  }

  const Function& function_;
  const StoredValues& stored_;
  std::unordered_map<ValueId, std::uint64_t> numbers_;
  SubgraphKey key_;
};

}  // namespace

SubgraphKey subgraph_key(const Function& function, std::span<const Binding> bindings,
                         std::span<const ValueId> outputs, const StoredValues& stored) {
  KeyMaker maker(function, stored);
  for (const Binding& binding : bindings) maker.add(binding);
  for (ValueId output : outputs) maker.add(output);
  return maker.take();
}

}  // namespace anydim::passes
