#include "codegen_cuda/loops/ordered_scan.h"

#include <fmt/format.h>

#include "codegen_cuda/rows/row_parts.h"
#include "codegen_cuda/rows/row_stages.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

using ir::OrderedForm;
using ir::OrderedStage;

class ScanWriter {
 public:
  ScanWriter(KernelWriter& kernel, const OrderedForm& form, const OrderedStage& stage,
             const OrderedSchedule& fields, Dim workspace)
      : kernel_(kernel), form_(form), stage_(stage), fields_(fields),
        threads_(static_cast<int>(fields.threads)), items_(static_cast<int>(fields.items)),
        workspace_(std::move(workspace)) {
    for (const OrderedStage::Carry& carry : stage.carries) {
      addends_.push_back(*addend_of(stage, carry));
      sums_.push_back({.kind = ir::Reduce::Sum, .dtype = carry.dtype});
    }
    roots_ = addends_;
    for (const OrderedStage::Update& update : stage.updates) roots_.push_back(update.store.step);
  }

  // What each part of a row has together, in the workspace.
  ir::DeviceLaunch write_totals(const std::string& name) {
    return entry(name, [&](CodeScope& scope, CodeScope& part) {
      std::vector<std::string> mine;
      for (const auto& sum : sums_) {
        mine.push_back(kernel_.fresh_numbered("mine"));
        part.line("{} {} = {};", value_type(sum.dtype), mine.back(), neutral(sum));
      }
      kernel_.block(part,
                    counting_loop(parts_.wide, parts_.point, parts_.first + " + threadIdx.x",
                                  parts_.last, std::to_string(threads_)),
                    [&](CodeScope& at) {
                      define_point(kernel_, at, parts_.inner, {parts_.point, parts_.wide});
                      ScalarWriter program(kernel_, stage_.program, at, roots_);
                      for (std::size_t i = 0; i < sums_.size(); ++i)
                        at.line("{} = {};", mine[i],
                                add(i, mine[i], program.value(at, addends_[i])));
                    });
      const RowGroup group{.kind = RowGroup::Kind::Block,
                           .threads = threads_,
                           .thread = "threadIdx.x",
                           .stores_row = {},
                           .stores_point = {}};
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        const std::string total = kernel_.fresh_numbered("total");
        part.line("const {} {} = {};", value_type(sums_[i].dtype), total,
                  reduced(kernel_, scope, group, sums_[i], mine[i]));
        part.line("if (threadIdx.x == 0) {} = {};", total_of(part, i, parts_.part), total);
      }
      part.line("__syncthreads();  // shared sums are free for the next part");
    });
  }

  ir::DeviceLaunch write_points(const std::string& name) {
    return entry(name, [&](CodeScope& scope, CodeScope& part) {
      kernel_.use("scans");
      std::vector<std::string> carried, shared;
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        const std::string type = value_type(sums_[i].dtype);
        carried.push_back(kernel_.fresh_numbered("carried"));
        shared.push_back(kernel_.fresh_numbered("shared"));
        // Two sets, used in turn: a warp may be a tile ahead of one that still reads.
        scope.line("__shared__ {} {}[2][{}];", type, shared.back(), threads_ / 32);
        part.line("{} {} = {};", type, carried.back(), neutral(sums_[i]));
        if (fields_.split == 1) continue;
        const std::string earlier = kernel_.fresh("earlier");
        kernel_.block(
            part, fmt::format("for (long long {0} = 0; {0} < {1}; ++{0})", earlier, parts_.part),
            [&](CodeScope& one) {
              one.line("{} = {};", carried[i],
                       add(i, carried[i],
                           fmt::format("({}){}", value_type(sums_[i].dtype),
                                       total_of(one, i, earlier))));
            });
      }
      const std::string tile = kernel_.fresh("tile"), turn = kernel_.fresh("turn");
      part.line("int {} = 0;", turn);
      kernel_.block(part,
                    counting_loop(parts_.wide, tile, parts_.first, parts_.last,
                                  std::to_string(threads_ * items_)),
                    [&](CodeScope& at) { write_tile(at, tile, turn, carried, shared); });
      part.line("__syncthreads();  // shared sums are free for the next row");
    });
  }

 private:
  ir::DeviceLaunch entry(const std::string& name,
                         const std::function<void(CodeScope&, CodeScope&)>& body) {
    CodeScope& scope = kernel_.begin_entry({.name = name, .threads = threads_, .dependent = true});
    parts_ = row_parts(kernel_, form_.outer, stage_.inner, fields_.split,
                       std::int64_t{threads_} * items_);
    write_row_parts(kernel_, scope, parts_, [&](CodeScope& part) {
      write_where(kernel_, part, stage_.conditions,
                  [&](CodeScope& inside) { body(scope, inside); });
    });
    kernel_.end_entry();
    return {.entry = name,
            .grid = {grid_of(kernel_, parts_, fields_.threads), Dim(1), Dim(1)},
            .block = {threads_, 1, 1}};
  }

  // `items` neighbours a thread: their sum, what is before it, and then each point with what is
  // before the point.
  void write_tile(CodeScope& at, const std::string& tile, const std::string& turn,
                  const std::vector<std::string>& carried, const std::vector<std::string>& shared) {
    std::vector<std::string> kept, running;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      kept.push_back(kernel_.fresh_numbered("kept"));
      running.push_back(kernel_.fresh_numbered("running"));
      const std::string type = value_type(sums_[i].dtype);
      at.line("{} {}[{}], {} = {};", type, kept.back(), items_, running.back(), neutral(sums_[i]));
    }
    const std::string item = kernel_.fresh("item");
    const auto for_items = [&](const std::function<void(CodeScope&)>& body) {
      kernel_.block(
          at, fmt::format("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0})", item, items_),
          [&](CodeScope& one) {
            one.line("const {} {} = {} + (int)threadIdx.x * {} + {};", index_type(parts_.wide),
                     parts_.point, tile, items_, item);
            body(one);
          });
    };
    for_items([&](CodeScope& one) {
      for (std::size_t i = 0; i < sums_.size(); ++i)
        one.line("{}[{}] = {};", kept[i], item, neutral(sums_[i]));
      kernel_.block(
          one, fmt::format("if ({} < {})", parts_.point, parts_.last), [&](CodeScope& inside) {
            define_point(kernel_, inside, parts_.inner, {parts_.point, parts_.wide});
            ScalarWriter program(kernel_, stage_.program, inside, roots_);
            for (std::size_t i = 0; i < sums_.size(); ++i)
              inside.line("{}[{}] = {};", kept[i], item, program.value(inside, addends_[i]));
          });
      for (std::size_t i = 0; i < sums_.size(); ++i)
        one.line("{} = {};", running[i], add(i, running[i], kept[i] + "[" + item + "]"));
    });
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::string type = value_type(sums_[i].dtype), total = kernel_.fresh_numbered("total"),
                        before = kernel_.fresh_numbered("before");
      at.line("{} {};", type, total);
      at.line(
          "const {type} {before} = scan_block<{warps}>({running}, {neutral}, {shared}[{turn} & 1], "
          "[]({type} a, {type} b) -> {type} {{ return {sum}; }}, {total});",
          fmt::arg("type", type), fmt::arg("before", before), fmt::arg("warps", threads_ / 32),
          fmt::arg("running", running[i]), fmt::arg("neutral", neutral(sums_[i])),
          fmt::arg("shared", shared[i]), fmt::arg("turn", turn), fmt::arg("sum", add(i, "a", "b")),
          fmt::arg("total", total));
      at.line("{} = {};", running[i], add(i, carried[i], before));
      at.line("{} = {};", carried[i], add(i, carried[i], total));
    }
    at.line("++{};", turn);
    for_items([&](CodeScope& one) {
      kernel_.block(
          one, fmt::format("if ({} < {})", parts_.point, parts_.last), [&](CodeScope& inside) {
            define_point(kernel_, inside, parts_.inner, {parts_.point, parts_.wide});
            ScalarWriter program(kernel_, stage_.program, inside, roots_);
            for (std::size_t i = 0; i < sums_.size(); ++i) {
              program.set_accumulated(stage_.carries[i].slot, running[i], inside);
              program.set_step(addends_[i], fmt::format("{}[{}]", kept[i], item), inside);
            }
            for (const OrderedStage::Update& update : stage_.updates)
              program.store(inside, update.store, update.combine);
            for (std::size_t i = 0; i < sums_.size(); ++i)
              inside.line("{} = {};", running[i], add(i, running[i], kept[i] + "[" + item + "]"));
          });
    });
  }

  std::string add(std::size_t i, const std::string& a, const std::string& b) const {
    return combined(kernel_, sums_[i], a, b);
  }

  std::string total_of(CodeScope& scope, std::size_t i, const std::string& part) const {
    const std::string offset = bare(write_index(kernel_, scope, workspace_));
    return fmt::format(
        "((({type}*)((char*)workspace + {offset}))[({row} * {split} + {part}) * {sums} + {sum}])",
        fmt::arg("type", wide_type(sums_[i].dtype)), fmt::arg("offset", offset),
        fmt::arg("row", parts_.row), fmt::arg("split", fields_.split), fmt::arg("part", part),
        fmt::arg("sums", sums_.size()), fmt::arg("sum", i));
  }
  // Totals take 8 bytes each, whatever they are made of.
  static std::string wide_type(ir::DType dtype) {
    return ir::is_float(dtype)                                ? "double"
           : ir::is_signed(dtype) || dtype == ir::DType::Bool ? "long long"
                                                              : "unsigned long long";
  }

  KernelWriter& kernel_;
  const OrderedForm& form_;
  const OrderedStage& stage_;
  const OrderedSchedule& fields_;
  int threads_, items_;
  Dim workspace_;
  RowParts parts_;
  std::vector<std::int32_t> addends_, roots_;
  std::vector<ir::RowStage::Reduction> sums_;
};

}  // namespace

std::optional<std::int32_t> addend_of(const OrderedStage& stage, const OrderedStage::Carry& carry) {
  const auto step = [&](std::int32_t position) -> const ir::ScalarStep& {
    return stage.program.steps.at(static_cast<std::size_t>(position));
  };
  const ir::ScalarStep& next = step(carry.next);
  if (!next.applies(ir::Op::add) || next.dtype != carry.dtype) return std::nullopt;
  const std::vector<bool> carried = ir::computed_from_accumulated(stage.program);
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const ir::ScalarStep& before = step(next.operands[side]);
    const std::int32_t addend = next.operands[1 - side];
    const auto* slot = std::get_if<ir::step::Accumulated>(&before.kind);
    if (slot && slot->slot == carry.slot && !carried[static_cast<std::size_t>(addend)])
      return addend;
  }
  return std::nullopt;
}

std::vector<ir::DeviceLaunch> write_scan(KernelWriter& kernel, const OrderedForm& form,
                                         const OrderedStage& stage, const OrderedSchedule& fields,
                                         const std::string& stem, OrderedWorkspace& workspace) {
  ScanWriter writer(kernel, form, stage, fields, workspace.bytes);
  std::vector<ir::DeviceLaunch> launches;
  if (fields.split > 1) {
    launches.push_back(writer.write_totals(stem + "_totals"));
    const Dim of_row(static_cast<std::int64_t>(stage.carries.size()) * fields.split * 8);
    workspace.bytes = workspace.bytes + of_row * ir::points_of(form.outer);
  }
  launches.push_back(writer.write_points(stem));
  return launches;
}

}  // namespace anydim::codegen_cuda
