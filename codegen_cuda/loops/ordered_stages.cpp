#include "codegen_cuda/loops/ordered_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen_cuda/loops/map_part.h"
#include "codegen_cuda/loops/ordered_scan.h"
#include "codegen_cuda/scalars/linear_space.h"

namespace anydim::codegen_cuda {

namespace {

using ir::OrderedForm;
using ir::OrderedStage;

bool mentions_step(const Dim& dim) {
  const auto leaves = dim.leaves();
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const ir::DimLeaf& leaf) { return leaf.is_step(); });
}

bool places_are_known(const OrderedStage& stage) {
  return std::all_of(
      stage.updates.begin(), stage.updates.end(), [](const OrderedStage::Update& update) {
        return !update.combine &&
               std::none_of(update.store.index.begin(), update.store.index.end(), mentions_step);
      });
}

// The loops in the order in which the store's index names them, where it is nothing but their
// variables.
std::optional<std::vector<ir::Iteration>> loops_of(const OrderedForm& form,
                                                   const OrderedStage& stage,
                                                   const ir::Store& store) {
  std::vector<ir::Iteration> all(form.outer.begin(), form.outer.end()), found;
  all.insert(all.end(), stage.inner.begin(), stage.inner.end());
  for (const Dim& index : store.index) {
    const auto loop = std::find_if(all.begin(), all.end(),
                                   [&](const ir::Iteration& one) { return one.index() == index; });
    if (loop == all.end()) return std::nullopt;
    found.push_back(*loop);
    all.erase(loop);
  }
  if (!all.empty()) return std::nullopt;
  return found;
}

bool is_map(const OrderedForm& form, const OrderedStage& stage) {
  if (!stage.carries.empty() || !stage.conditions.empty() || !places_are_known(stage) ||
      stage.updates.empty())
    return false;
  const auto first = loops_of(form, stage, stage.updates.front().store);
  return first && std::all_of(stage.updates.begin(), stage.updates.end(),
                              [&](const OrderedStage::Update& update) {
                                return loops_of(form, stage, update.store) == first;
                              });
}

// Every update goes to a place that depends on the point of the inner loops: several points may
// write at once, since no two write the same element.
bool is_scan(const OrderedStage& stage) {
  if (stage.carries.empty() || stage.inner.empty() || !places_are_known(stage)) return false;
  for (const OrderedStage::Update& update : stage.updates) {
    for (const ir::Iteration& loop : stage.inner) {
      if (loop.extent.is_constant(1)) continue;
      if (std::none_of(update.store.index.begin(), update.store.index.end(),
                       [&](const Dim& dim) { return dim.mentions(loop.variable); }))
        return false;
    }
  }
  return std::all_of(
      stage.carries.begin(), stage.carries.end(),
      [&](const OrderedStage::Carry& carry) { return addend_of(stage, carry).has_value(); });
}

bool is_owned(const OrderedStage& stage) {
  if (!stage.carries.empty() || stage.inner.empty() || stage.updates.size() != 1) return false;
  const std::vector<Dim>& place = stage.updates.front().store.index;
  return std::any_of(place.begin(), place.end(), mentions_step);
}

class RowWriter {
 public:
  RowWriter(KernelWriter& kernel, const OrderedForm& form, const OrderedStage& stage,
            const OrderedSchedule& fields)
      : kernel_(kernel), form_(form), stage_(stage), fields_(fields) {}

  ir::DeviceLaunch write(const std::string& name, bool owned) {
    const auto threads = static_cast<int>(fields_.threads);
    const std::int64_t owners = owned ? fields_.owners : 1;
    CodeScope& entry = kernel_.begin_entry({.name = name, .threads = threads, .dependent = true});
    std::vector<ir::Iteration> loops = form_.outer;
    const ir::Iteration owner{ir::loop_leaf(ir::LoopRole::Made), Dim(owners)};
    // Neighbouring threads take neighbouring elements of a slice; where rows lie otherwise, the
    // owners of a row read the same indices together.
    if (owners > 1) loops.insert(slices_lie_along_the_rows() ? loops.begin() : loops.end(), owner);
    const LinearSpace space = linear_space(kernel_, loops);
    write_grid_stride(kernel_, entry, space, threads, [&](CodeScope& row) {
      write_where(kernel_, row, stage_.conditions, [&](CodeScope& at) {
        owners > 1 ? owned_updates(at, *at.find(owner.variable)) : serial(at);
      });
    });
    kernel_.end_entry();
    const Dim most((2048 / fields_.threads) * kernel_.target().multiprocessors);
    ir::DeviceLaunch launch{
        .entry = name,
        .grid = {ir::min(ir::ceil_div(space.points, threads), most), Dim(1), Dim(1)},
        .block = {threads, 1, 1}};
    return launch;
  }

 private:
  bool slices_lie_along_the_rows() const {
    if (form_.outer.empty()) return false;
    const Dim inner = form_.outer.back().index();
    return std::all_of(
        stage_.updates.begin(), stage_.updates.end(),
        [&](const OrderedStage::Update& update) { return update.store.index.back() == inner; });
  }

  // Points one after the other, what each leaves for the next in variables.
  void serial(CodeScope& row) {
    std::vector<std::string> carried;
    for (const OrderedStage::Carry& carry : stage_.carries) {
      carried.push_back(kernel_.fresh_numbered("carried"));
      row.line("{} {} = {};", value_type(carry.dtype), carried.back(), literal(carry.dtype, 0, 0));
    }
    const LinearSpace inner = linear_space(kernel_, stage_.inner);
    const bool wide = counter_is_wide(kernel_, inner.points);
    const std::string point = kernel_.fresh("step"),
                      points = bare(write_index(kernel_, row, inner.points));
    kernel_.block(
        row, fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index_type(wide), point, points),
        [&](CodeScope& at) {
          define_point(kernel_, at, inner, {point, wide});
          ScalarWriter program(kernel_, stage_.program, at, ir::roots_of(stage_));
          for (std::size_t i = 0; i < carried.size(); ++i)
            program.set_accumulated(stage_.carries[i].slot, carried[i], at);
          for (const OrderedStage::Update& update : stage_.updates)
            program.store(at, update.store, update.combine);
          std::vector<std::string> next;
          for (const OrderedStage::Carry& carry : stage_.carries)
            next.push_back(program.value(at, carry.next));
          for (std::size_t i = 0; i < carried.size(); ++i) at.line("{} = {};", carried[i], next[i]);
        });
  }

  // The place of an update among those that only the data tells, as one number.
  Dim place_of(const ScalarWriter& program, const ir::Store& store) const {
    const std::vector<Dim>& dims = kernel_.output_type(static_cast<std::size_t>(store.output)).dims;
    const std::vector<Dim> own = program.store_index(store);
    std::vector<Dim> index, extents;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (!mentions_step(store.index[i])) continue;
      index.push_back(own[i]);
      extents.push_back(dims[i]);
    }
    return ir::linear_offset(index, extents, kernel_.symbols());
  }

  // Every owner looks at all updates, several at once so that their indices arrive together, and
  // makes those of its own places.
  void owned_updates(CodeScope& row, const IndexVariable& owner) {
    constexpr int together = 8;
    const LinearSpace inner = linear_space(kernel_, stage_.inner);
    const bool wide = counter_is_wide(kernel_, inner.points);
    const std::string points = kernel_.fresh("updates"), first = kernel_.fresh("first"),
                      next = kernel_.fresh("next");
    row.line("const {} {} = {};", index_type(wide), points,
             bare(write_index(kernel_, row, inner.points)));
    const OrderedStage::Update& update = stage_.updates.front();
    kernel_.block(
        row,
        fmt::format("for ({0} {1} = 0; {1} < {2}; {1} += {3})", index_type(wide), first, points,
                    together),
        [&](CodeScope& turn) {
          const std::string mine = kernel_.fresh("mine"), point = kernel_.fresh("update");
          turn.line("bool {}[{}];", mine, together);
          kernel_.block(
              turn,
              fmt::format("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0})", next, together),
              [&](CodeScope& look) {
                look.line("const {} {} = {} + {};", index_type(wide), point, first, next);
                look.line("{}[{}] = false;", mine, next);
                kernel_.block(look, fmt::format("if ({} < {})", point, points), [&](CodeScope& at) {
                  define_point(kernel_, at, inner, {point, wide});
                  ScalarWriter program(kernel_, stage_.program, at, ir::roots_of(stage_));
                  program.place_store(at, update.store);
                  const std::string place =
                      bare(write_index(kernel_, at, place_of(program, update.store)));
                  at.line("{}[{}] = (({}) & {}) == {};", mine, next, place, fields_.owners - 1,
                          owner.name);
                });
              });
          kernel_.block(
              turn,
              fmt::format("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0})", next, together),
              [&](CodeScope& make) {
                kernel_.block(make, fmt::format("if ({}[{}])", mine, next), [&](CodeScope& at) {
                  at.line("const {} {} = {} + {};", index_type(wide), point, first, next);
                  define_point(kernel_, at, inner, {point, wide});
                  ScalarWriter program(kernel_, stage_.program, at, ir::roots_of(stage_));
                  program.store(at, update.store, update.combine);
                });
              });
        });
  }

  KernelWriter& kernel_;
  const OrderedForm& form_;
  const OrderedStage& stage_;
  const OrderedSchedule& fields_;
};

}  // namespace

OrderedKind kind_of(const OrderedForm& form, const OrderedStage& stage) {
  if (is_map(form, stage)) return OrderedKind::Points;
  if (is_scan(stage)) return OrderedKind::Scan;
  return is_owned(stage) ? OrderedKind::Owned : OrderedKind::Serial;
}

std::vector<ir::DeviceLaunch> write_ordered_stage(KernelWriter& kernel, const OrderedForm& form,
                                                  const OrderedStage& stage,
                                                  const OrderedSchedule& fields,
                                                  const std::string& stem,
                                                  OrderedWorkspace& workspace) {
  const OrderedKind kind = kind_of(form, stage);
  if (kind == OrderedKind::Points) {
    const auto threads = static_cast<int>(fields.threads);
    ir::MapPart part{.space = *loops_of(form, stage, stage.updates.front().store),
                     .program = stage.program,
                     .stores = {}};
    for (const OrderedStage::Update& update : stage.updates) part.stores.push_back(update.store);
    CodeScope& entry = kernel.begin_entry({.name = stem, .threads = threads, .dependent = true});
    const Dim blocks = write_map_part(kernel, entry, part, fields.vector, threads);
    kernel.end_entry();
    const Dim most((2048 / fields.threads) * kernel.target().multiprocessors);
    return {
        {.entry = stem, .grid = {ir::min(blocks, most), Dim(1), Dim(1)}, .block = {threads, 1, 1}}};
  }
  if (kind == OrderedKind::Scan && fields.items > 0)
    return write_scan(kernel, form, stage, fields, stem, workspace);
  return {RowWriter(kernel, form, stage, fields).write(stem, kind == OrderedKind::Owned)};
}

}  // namespace anydim::codegen_cuda
