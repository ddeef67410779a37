// Tensors of 8-bit integers and what quantised models make real of them: integers less a zero
// point, times a scale.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Whether all dims are 1.
bool is_one_number(const ir::Function& function, ir::ValueId value);

// Reads what bindings in front of a value make it of. Types must be inferred.
class QuantisedValues {
 public:
  explicit QuantisedValues(const ir::Function& function) : function_(function) {}  // outlives it

  // Of a binding that values behind it may be made with.
  void note(const ir::Binding& binding);

  const ir::Binding* definition(ir::ValueId value) const;  // null: none that was noted
  const ir::Binding* definition(ir::ValueId value, ir::Op op) const;
  // The number that all elements are known to be, also behind conversions that keep integers.
  std::optional<double> number(ir::ValueId value) const;

  // What was moved to the value by views and by borders that are counted among the moves, which are
  // added, the last that is done first; nullopt where that is nothing that was noted.
  std::optional<ir::ValueId> before_moves(ir::ValueId value,
                                          const std::function<bool(const ir::Binding&)>& is_border,
                                          std::vector<ir::Binding>& moves) const;

  // Integers, as i32, less a zero point.
  struct Centred {
    ir::ValueId integers = ir::no_value;  // u8 or i8
    ir::ValueId wide = ir::no_value;      // the same as i32
    ir::ValueId zero = ir::no_value;      // i32; no_value: none
    ir::DType dtype{};
  };
  // nullopt where the value is none, or has larger dims than the integers.
  std::optional<Centred> centred(ir::ValueId value) const;

  // Centred integers as f32, times a scale.
  struct Real {
    ir::ValueId centred = ir::no_value;
    ir::ValueId scale = ir::no_value;
  };
  std::optional<Real> made_real(ir::ValueId value) const;

 private:
  const ir::Function& function_;
  std::map<ir::ValueId, ir::Binding> definitions_;
};

}  // namespace anydim::passes
