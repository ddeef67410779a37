#include "passes/subgraph_key.h"

#include <bit>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace anydim::passes {

using namespace ir;

namespace {

class Hash {
 public:
  void add(std::uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
  }
  void add(std::string_view text) { add(std::hash<std::string_view>{}(text)); }
  void add(const Tensor& tensor) {
    add(static_cast<std::uint64_t>(tensor.dtype()));
    add(tensor.rank());
    for (std::int64_t dim : tensor.dims()) add(static_cast<std::uint64_t>(dim));
    add(std::string_view(reinterpret_cast<const char*>(tensor.bytes().data()),
                         tensor.bytes().size()));
  }
  void add(const Attribute& attribute) {
    add(attribute.index());
    std::visit(
        [&](const auto& held) {
          using Kind = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Kind, double>) add(std::bit_cast<std::uint64_t>(held));
          else if constexpr (std::is_same_v<Kind, std::string>) add(std::string_view(held));
          else if constexpr (std::is_same_v<Kind, Tensor>) add(held);
          else if constexpr (std::is_same_v<Kind, std::vector<double>>)
            for (double number : held) add(std::bit_cast<std::uint64_t>(number));
          else if constexpr (std::is_same_v<Kind, std::vector<std::int64_t>>)
            for (std::int64_t number : held) add(static_cast<std::uint64_t>(number));
          else add(static_cast<std::uint64_t>(held));
        },
        attribute);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x2545f4914f6cdd1du;
};

class KeyMaker {
 public:
  KeyMaker(const Function& function, const std::vector<bool>& constants)
      : function_(function), constants_(constants) {}

  void add(const Binding& binding) {
    key_.push_back(static_cast<std::uint64_t>(binding.op) << 32 | binding.operands.size() << 16 |
                   binding.results.size());
    for (ValueId operand : binding.operands) add(operand);
    for (ValueId result : binding.results) add(result);
    for (const Dim& dim : binding.dims) key_.push_back(dim.hash());
    key_.push_back(binding.dims.size());
    if (binding.attributes.empty()) return;
    Hash hash;
    for (const auto& [name, attribute] : binding.attributes) {
      hash.add(std::string_view(name));
      hash.add(attribute);
    }
    key_.push_back(hash.value());
  }

  // A number in order of first appearance, and its type at that place.
  void add(ValueId value) {
    if (value == no_value) {
      key_.push_back(value);
      return;
    }
    auto [found, fresh] = numbers_.emplace(value, numbers_.size());
    key_.push_back(found->second);
    if (!fresh) return;
    const TensorType& type = function_.tensor_type(value);
    key_.push_back(static_cast<std::uint64_t>(type.dtype) << 32 | type.rank() << 1 |
                   (value < constants_.size() && constants_[value] ? 1 : 0));
    for (const Dim& dim : type.dims) key_.push_back(dim.hash());
  }

  SubgraphKey take() { return std::move(key_); }

 private:
  const Function& function_;
  const std::vector<bool>& constants_;
  std::unordered_map<ValueId, std::uint64_t> numbers_;
  SubgraphKey key_;
};

}  // namespace

SubgraphKey subgraph_key(const Function& function, std::span<const Binding> bindings,
                         std::span<const ValueId> outputs, const std::vector<bool>& constants) {
  KeyMaker maker(function, constants);
  for (const Binding& binding : bindings) maker.add(binding);
  for (ValueId output : outputs) maker.add(output);
  return maker.take();
}

}  // namespace anydim::passes
