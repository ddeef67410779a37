#include "passes/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/loop_form.h"
#include "passes/plan_memory.h"
#include "passes/slot_table.h"

namespace anydim::passes {

using namespace ir;

namespace {

class Lowering {
 public:
  Lowering(const Module& module, const PassContext& context)
      : module_(module), context_(context), main_(module.functions.at(0)), buffer_of_(main_.values.size(), -1) {}

  Program run() {
    program_.symbols = main_.symbols;
    find_wanted_elements();
    begin_stage();
    add_inputs();
    add_kernels();
    name_outputs();
    for (const Binding& binding : main_.body.bindings) add(binding);
    make_known(sizes_at_the_end());
    add_outputs();
    add_requirements();
    plan_arena();
    number_slots();
    return std::move(program_);
  }

 private:
  // ---- Elements of tensors that sizes depend on ----

  void want(const Dim& dim) {
    for (const DimLeaf& leaf : dim.leaves())
      if (!leaf.is_symbol()) wanted_[leaf.value].insert(leaf.element);
  }

  void find_wanted_elements() {
    for (const Value& value : main_.values)
      if (value.type.is_tensor())
        for (const Dim& dim : value.type.tensor.dims) want(dim);
    for (const Binding& binding : main_.body.bindings)
      for (const Dim& dim : binding.dims) want(dim);
    for (const Requirement& requirement : context_.requirements) {
      want(requirement.precondition.left);
      want(requirement.precondition.right);
    }
  }

  void begin_stage() {
    program_.stages.emplace_back();
    stage_ = static_cast<std::int32_t>(program_.stages.size() - 1);
  }

  void fetch(ValueId value) {
    auto found = wanted_.find(value);
    if (found == wanted_.end() || buffer_of_[value] < 0) return;
    for (std::int64_t element : found->second) {
      DimLeaf leaf{{}, value, element};
      slots_.add_leaf(leaf, stage_);
      program_.instructions.push_back(Program::Fetch{buffer_of_[value], main_.tensor_type(value).dtype, element, slots_.leaf_slot(leaf)});
    }
    touch(buffer_of_[value]);
    wanted_.erase(found);
  }

  // Before something that needs `dims`: fetches what is computed by now and starts a stage for the sizes that become known.
  void make_known(const std::vector<Dim>& dims) {
    bool known = true;
    for (const Dim& dim : dims)
      for (const DimLeaf& leaf : dim.leaves()) known = known && slots_.knows(leaf);
    if (known) return;
    begin_stage();
    std::vector<ValueId> ready;
    for (const auto& [value, elements] : wanted_)
      if (buffer_of_[value] >= 0) ready.push_back(value);
    for (ValueId value : ready) fetch(value);
    program_.instructions.push_back(Program::RunStage{stage_});
  }

  // ---- Buffers ----

  std::int32_t add_buffer(Program::Buffer buffer) {
    program_.buffers.push_back(std::move(buffer));
    lifetimes_.push_back({position(), position()});
    return static_cast<std::int32_t>(program_.buffers.size() - 1);
  }

  std::int64_t position() const { return static_cast<std::int64_t>(program_.instructions.size()); }
  void touch(std::int32_t buffer) { lifetimes_[static_cast<std::size_t>(buffer)].last = position(); }

  void add_inputs() {
    for (ValueId parameter : main_.body.parameters) {
      const TensorType& type = main_.tensor_type(parameter);
      auto index = static_cast<std::int32_t>(program_.inputs.size());
      buffer_of_[parameter] = add_buffer({.place = Program::Buffer::Place::Input, .index = index, .name = main_.values[parameter].name});
      program_.inputs.push_back({main_.values[parameter].name, type.dtype, type.dims, buffer_of_[parameter]});
    }
    // A symbol that no input mentions has no value, and no size needs one.
    std::set<DimLeaf> bound;
    for (const Program::Input& input : program_.inputs)
      for (const Dim& dim : input.dims) dim.collect_leaves(bound);
    for (const std::string& name : main_.symbols.names())
      if (DimLeaf leaf = Dim::symbol(name).leaf(); bound.contains(leaf)) slots_.add_leaf(leaf, 0);
    for (ValueId parameter : main_.body.parameters) fetch(parameter);
    program_.instructions.push_back(Program::RunStage{0});
  }

  void add_kernels() {
    internal_check(context_.tables.size() == module_.regions.size(), "every region has a dispatch table");
    for (std::size_t i = 0; i < module_.regions.size(); ++i) {
      Program::Kernel kernel;
      kernel.region = module_.regions[i];
      kernel.table = context_.tables[i];
      kernel.checks = derive_loop_form(kernel.region).checks;
      program_.kernels.push_back(std::move(kernel));
    }
  }

  std::int32_t constant_buffer(ValueId value, const std::optional<PackedLayout>& layout, std::int32_t region, std::int32_t parameter) {
    // One copy a layout: regions that read a weight alike share it.
    for (const auto& [known, buffer] : constant_buffers_[value])
      if (known == layout) return buffer;
    auto index = static_cast<std::int32_t>(program_.constants.size());
    program_.constants.push_back({constants_.at(value), main_.values[value].name, layout, region, parameter});
    std::int32_t buffer = add_buffer({.place = Program::Buffer::Place::Constant, .index = index, .name = main_.values[value].name});
    constant_buffers_[value].emplace_back(layout, buffer);
    return buffer;
  }

  void name_outputs() {
    for (std::size_t i = 0; i < main_.body.results.size(); ++i) {
      internal_check(!output_of_.contains(main_.body.results[i]), "results are distinct");
      output_of_.emplace(main_.body.results[i], static_cast<std::int32_t>(i));
    }
  }

  // ---- Bindings ----

  void add(const Binding& binding) {
    switch (binding.op) {
      case Op::constant: constants_.emplace(binding.results[0], tensor_attribute(binding, "value")); break;
      case Op::region: add_launch(binding); break;
      case Op::check_shape: add_check_shape(binding); break;
      default: throw Error(ErrorKind::Unsupported, describe(main_, binding) + " is not compiled yet; --executor reference runs it");
    }
  }

  void add_launch(const Binding& binding) {
    const Region& region = module_.regions[binding.callee];
    std::vector<Dim> keys, needed = binding.dims;
    std::map<std::string, Dim> arguments;
    for (std::size_t i = 0; i < binding.dims.size(); ++i) arguments.emplace(region.body.symbols.names()[i], binding.dims[i]);
    for (const Dim& key : region.keys) keys.push_back(key.substitute(arguments));
    for (ValueId result : binding.results)
      for (const Dim& dim : main_.tensor_type(result).dims) needed.push_back(dim);
    make_known(needed);

    Program::Launch launch;
    launch.kernel = static_cast<std::int32_t>(binding.callee);
    launch.source = binding.source;
    for (std::size_t i = 0; i < binding.operands.size(); ++i) {
      ValueId operand = binding.operands[i];
      if (constants_.contains(operand)) {
        bool weight = std::find(region.weights.begin(), region.weights.end(), i) != region.weights.end();
        auto layout = weight && context_.backend != nullptr ? context_.backend->packed_layout(region, i) : std::nullopt;
        launch.buffers.push_back(constant_buffer(operand, layout, layout ? launch.kernel : -1, layout ? static_cast<std::int32_t>(i) : -1));
      } else {
        internal_check(buffer_of_[operand] >= 0, "operands of a launch are computed before it");
        launch.buffers.push_back(buffer_of_[operand]);
      }
    }
    for (ValueId result : binding.results) {
      const TensorType& type = main_.tensor_type(result);
      Program::Buffer buffer{.name = main_.values[result].name};
      if (auto output = output_of_.find(result); output != output_of_.end()) {
        buffer.place = Program::Buffer::Place::Output;
        buffer.index = output->second;
      }
      buffer.segment = stage_;
      buffer_of_[result] = add_buffer(buffer);
      bytes_.emplace(buffer_of_[result], product(type.dims) * static_cast<std::int64_t>(size_of(type.dtype)));
      launch.buffers.push_back(buffer_of_[result]);
    }
    for (std::int32_t buffer : launch.buffers) touch(buffer);
    launch_ids_.push_back({position(), ids(binding.dims), ids(keys)});
    program_.instructions.push_back(std::move(launch));
  }

  std::vector<SlotTable::Id> ids(const std::vector<Dim>& dims) {
    std::vector<SlotTable::Id> result;
    for (const Dim& dim : dims) result.push_back(slots_.add(dim));
    return result;
  }

  void add_check_shape(const Binding& binding) {
    ValueId operand = binding.operands[0];
    const std::vector<Dim>& got = main_.tensor_type(operand).dims;
    for (const Dim& dim : binding.dims)
      for (const DimLeaf& leaf : dim.leaves())
        if (leaf.is_symbol() && !slots_.knows(leaf))
          throw Error(ErrorKind::Unsupported, describe(main_, binding) + " opens the symbol " + leaf.symbol +
                                                  ", which is not compiled yet; --executor reference runs it");
    make_known(binding.dims);
    for (std::size_t i = 0; i < binding.dims.size(); ++i)
      add_check(Comparison::Equal, got[i], binding.dims[i], false,
                fmt::format("{}: dimension {} of %{}", describe(main_, binding), i, main_.values[operand].name));
    buffer_of_[binding.results[0]] = buffer_of_[operand];
    if (auto constant = constants_.find(operand); constant != constants_.end()) constants_.emplace(binding.results[0], constant->second);
  }

  void add_outputs() {
    for (std::size_t i = 0; i < main_.body.results.size(); ++i) {
      ValueId result = main_.body.results[i];
      const TensorType& type = main_.tensor_type(result);
      internal_check(buffer_of_[result] >= 0, "results are computed by regions");
      program_.outputs.push_back({main_.result_names[i], type.dtype, {}, buffer_of_[result]});
      output_ids_.push_back(ids(type.dims));
    }
  }

  std::vector<Dim> sizes_at_the_end() const {
    std::vector<Dim> dims;
    for (ValueId result : main_.body.results)
      for (const Dim& dim : main_.tensor_type(result).dims) dims.push_back(dim);
    for (const Requirement& requirement : context_.requirements) {
      dims.push_back(requirement.precondition.left);
      dims.push_back(requirement.precondition.right);
    }
    return dims;
  }

  // ---- Checks ----

  void add_check(Comparison comparison, const Dim& left, const Dim& right, bool or_one, std::string message) {
    std::int32_t stage = std::max(slots_.stage_of(left), slots_.stage_of(right));
    check_ids_.push_back({stage, program_.stages[static_cast<std::size_t>(stage)].checks.size(), slots_.add(left), slots_.add(right)});
    program_.stages[static_cast<std::size_t>(stage)].checks.push_back({comparison, -1, -1, or_one, std::move(message)});
  }

  void add_requirements() {
    for (const Requirement& requirement : context_.requirements) {
      const Precondition& wanted = requirement.precondition;
      std::string message = fmt::format("{}: {}", requirement.source, wanted.what);
      using Relation = Precondition::Relation;
      switch (wanted.relation) {
        case Relation::Equal: add_check(Comparison::Equal, wanted.left, wanted.right, false, message); break;
        case Relation::Broadcastable: add_check(Comparison::Equal, wanted.left, wanted.right, true, message); break;
        case Relation::ExpandsTo: {
          Dim fits = select(Comparison::Equal, wanted.left, 1, wanted.right, wanted.left);
          add_check(Comparison::Equal, fits, wanted.right, false, message);
          break;
        }
        case Relation::LessEqual: add_check(Comparison::LessEqual, wanted.left, wanted.right, false, message); break;
        case Relation::NonZero: add_check(Comparison::NotEqual, wanted.left, 0, false, message); break;
        case Relation::MultipleOf: {
          Dim divisor_or_one = select(Comparison::Equal, wanted.right, 0, 1, wanted.right);
          add_check(Comparison::NotEqual, wanted.right, 0, false, message);
          add_check(Comparison::Equal, mod(wanted.left, divisor_or_one), 0, false, message);
          break;
        }
      }
    }
  }

  // ---- Memory ----

  void plan_arena() {
    Dim ceiling;
    for (std::size_t stage = 0; stage < program_.stages.size(); ++stage) {
      std::vector<Lifetime> lifetimes;
      std::vector<std::int32_t> buffers;
      for (const auto& [buffer, bytes] : bytes_) {
        const Program::Buffer& entry = program_.buffers[static_cast<std::size_t>(buffer)];
        if (entry.place != Program::Buffer::Place::Arena || entry.segment != static_cast<std::int32_t>(stage)) continue;
        const auto& span = lifetimes_[static_cast<std::size_t>(buffer)];
        lifetimes.push_back({span.first, span.last, bytes});
        buffers.push_back(buffer);
      }
      MemoryPlan plan = plan_memory(lifetimes, main_.symbols);
      for (std::size_t i = 0; i < buffers.size(); ++i) offset_ids_.emplace(buffers[i], slots_.add(plan.offsets[i]));
      if (!buffers.empty()) arena_ids_.emplace(stage, slots_.add(plan.total));
      ceiling = ceiling + plan.total;
    }
    for (const auto& [buffer, bytes] : bytes_) byte_ids_.emplace(buffer, slots_.add(bytes));
    program_.arena_ceiling = ceiling;
  }

  void number_slots() {
    program_.slots = slots_.finish(program_.stages, program_.leaf_symbols);
    auto slots = [&](const std::vector<SlotTable::Id>& list) {
      std::vector<Program::Slot> result;
      for (SlotTable::Id id : list) result.push_back(slots_.slot(id));
      return result;
    };
    for (const LaunchIds& ids : launch_ids_) {
      auto& launch = std::get<Program::Launch>(program_.instructions[static_cast<std::size_t>(ids.position)]);
      launch.extents = slots(ids.extents);
      launch.keys = slots(ids.keys);
    }
    for (std::size_t i = 0; i < output_ids_.size(); ++i) program_.outputs[i].dims = slots(output_ids_[i]);
    for (const CheckIds& ids : check_ids_) {
      Program::Check& check = program_.stages[static_cast<std::size_t>(ids.stage)].checks[ids.check];
      check.left = slots_.slot(ids.left);
      check.right = slots_.slot(ids.right);
    }
    for (const auto& [buffer, id] : offset_ids_) program_.buffers[static_cast<std::size_t>(buffer)].offset = slots_.slot(id);
    for (const auto& [buffer, id] : byte_ids_) program_.buffers[static_cast<std::size_t>(buffer)].bytes = slots_.slot(id);
    for (const auto& [stage, id] : arena_ids_) program_.stages[stage].arena_bytes = slots_.slot(id);
  }

  struct LaunchIds {
    std::int64_t position;
    std::vector<SlotTable::Id> extents, keys;
  };
  struct CheckIds {
    std::int32_t stage;
    std::size_t check;
    SlotTable::Id left, right;
  };
  struct Span {
    std::int64_t first, last;
  };

  const Module& module_;
  const PassContext& context_;
  const Function& main_;
  Program program_;
  SlotTable slots_;
  std::int32_t stage_ = 0;
  std::map<ValueId, std::set<std::int64_t>> wanted_;
  std::map<ValueId, Tensor> constants_;
  std::map<ValueId, std::vector<std::pair<std::optional<PackedLayout>, std::int32_t>>> constant_buffers_;
  std::map<ValueId, std::int32_t> output_of_;
  std::vector<std::int32_t> buffer_of_;
  std::vector<Span> lifetimes_;
  std::map<std::int32_t, Dim> bytes_;
  std::vector<LaunchIds> launch_ids_;
  std::vector<std::vector<SlotTable::Id>> output_ids_;
  std::vector<CheckIds> check_ids_;
  std::map<std::int32_t, SlotTable::Id> offset_ids_, byte_ids_;
  std::map<std::size_t, SlotTable::Id> arena_ids_;
};

}  // namespace

Program lower(const Module& module, const PassContext& context) { return Lowering(module, context).run(); }

}  // namespace anydim::passes
