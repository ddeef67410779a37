#include "tests/codegen_cpu/tile_emulator.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace anydim::codegen_cpu::testing {

namespace {

constexpr std::size_t most_rows = 16, most_bytes = 64, registers = 8;

struct Tile {
  std::size_t rows = 0, bytes = 0;  // as set
  bool holds = false;               // loaded, zeroed or computed since
  std::array<std::array<std::uint8_t, most_bytes>, most_rows> data{};
};

struct Machine {
  bool set = false;
  std::array<Tile, registers> tiles;
  std::string fault;

  void fail(const std::string& what) {
    if (fault.empty()) fault = what;
  }
  // A register that may be used; null after a fault.
  Tile* tile(std::uint32_t number, bool reads, const char* what) {
    if (number >= registers || !set || tiles[number].rows == 0) {
      fail(fmt::format("{} of tile {}, which is not set", what, number));
      return nullptr;
    }
    if (reads && !tiles[number].holds)
      fail(fmt::format("{} of tile {}, which holds nothing", what, number));
    return &tiles[number];
  }
};

Machine& machine() {
  thread_local Machine state;
  return state;
}

void load_settings(const std::uint8_t* settings) {
  Machine& state = machine();
  state.set = settings[0] == 1;
  if (!state.set || settings[1] != 0) state.fail("settings of tiles are palette 1 from row 0");
  for (std::size_t i = 2; i < most_bytes; ++i) {
    const bool used = (i >= 16 && i < 32) || (i >= 48 && i < 56);
    if (!used && settings[i] != 0)
      state.fail(fmt::format("byte {} of the settings is reserved", i));
  }
  for (std::size_t i = 0; i < registers; ++i) {
    Tile& tile = state.tiles[i];
    tile =
        Tile{.rows = settings[48 + i], .bytes = settings[16 + 2 * i] + 256U * settings[17 + 2 * i]};
    if (tile.rows > most_rows || tile.bytes > most_bytes || (tile.rows == 0) != (tile.bytes == 0))
      state.fail(fmt::format("tile {} is set to {} rows of {} bytes", i, tile.rows, tile.bytes));
  }
}

void release() {
  for (Tile& tile : machine().tiles) tile = Tile{};
  machine().set = false;
}

void zero(std::uint32_t number) {
  if (Tile* tile = machine().tile(number, false, "zeroing")) {
    tile->data = {};
    tile->holds = true;
  }
}

void load(std::uint32_t number, const std::uint8_t* from, std::int64_t stride) {
  Tile* tile = machine().tile(number, false, "loading");
  if (tile == nullptr) return;
  tile->data = {};
  for (std::size_t row = 0; row < tile->rows; ++row)
    std::memcpy(tile->data[row].data(), from + static_cast<std::int64_t>(row) * stride,
                tile->bytes);
  tile->holds = true;
}

void store(std::uint32_t number, std::uint8_t* to, std::int64_t stride) {
  Tile* tile = machine().tile(number, true, "storing");
  if (tile == nullptr) return;
  for (std::size_t row = 0; row < tile->rows; ++row)
    std::memcpy(to + static_cast<std::int64_t>(row) * stride, tile->data[row].data(), tile->bytes);
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

template <typename Element>
Element element(const Tile& tile, std::size_t row, std::size_t position) {
  Element value;
  std::memcpy(&value, tile.data[row].data() + position * sizeof(Element), sizeof(Element));
  return value;
}

// sum_of(c, a, b, m, n): the new element (m, n) of c.
template <typename Sum, typename SumOf>
void multiply(std::uint32_t result, std::uint32_t left, std::uint32_t right, const SumOf& sum_of) {
  Machine& state = machine();
  Tile *c = state.tile(result, true, "adding to"), *a = state.tile(left, true, "multiplying"),
       *b = state.tile(right, true, "multiplying");
  if (c == nullptr || a == nullptr || b == nullptr) return;
  if (a->rows != c->rows || a->bytes != 4 * b->rows || b->bytes != c->bytes || result == left ||
      result == right || left == right) {
    state.fail(fmt::format("tiles {}, {} and {} don't fit each other: {} x {}, {} x {}, {} x {}",
                           result, left, right, c->rows, c->bytes, a->rows, a->bytes, b->rows,
                           b->bytes));
    return;
  }
  for (std::size_t m = 0; m < c->rows; ++m) {
    for (std::size_t n = 0; n < c->bytes / 4; ++n) {
      const Sum sum = sum_of(*c, *a, *b, m, n);
      std::memcpy(c->data[m].data() + n * sizeof(sum), &sum, sizeof sum);
    }
  }
}

// Products of even and of odd elements are summed apart, denormals are zero (Intel's manual,
// TDPBF16PS).
void multiply_brains(std::uint32_t result, std::uint32_t left, std::uint32_t right) {
  multiply<float>(
      result, left, right,
      [](const Tile& c, const Tile& a, const Tile& b, std::size_t m, std::size_t n) {
        std::array<float, 2> sums{};
        for (std::size_t k = 0; k < b.rows; ++k) {
          for (std::size_t half = 0; half < 2; ++half) {
            const float x =
                flushed(ir::bfloat16_to_float(element<std::uint16_t>(a, m, 2 * k + half)));
            const float y =
                flushed(ir::bfloat16_to_float(element<std::uint16_t>(b, k, 2 * n + half)));
            sums[half] = flushed(std::fma(x, y, sums[half]));
          }
        }
        return flushed(flushed(element<float>(c, m, n)) + flushed(sums[0] + sums[1]));
      });
}

// u8 by i8, sums wrap (Intel's manual, TDPBUSD).
void multiply_bytes(std::uint32_t result, std::uint32_t left, std::uint32_t right) {
  multiply<std::uint32_t>(
      result, left, right,
      [](const Tile& c, const Tile& a, const Tile& b, std::size_t m, std::size_t n) {
        auto sum = element<std::uint32_t>(c, m, n);
        for (std::size_t k = 0; k < 4 * b.rows; ++k) {
          const std::int32_t x = element<std::uint8_t>(a, m, k),
                             y = element<std::int8_t>(b, k / 4, 4 * n + k % 4);
          sum += static_cast<std::uint32_t>(x * y);
        }
        return sum;
      });
}

void* function_of(llvm::Intrinsic::ID intrinsic) {
  switch (intrinsic) {
    case llvm::Intrinsic::x86_ldtilecfg: return reinterpret_cast<void*>(&load_settings);
    case llvm::Intrinsic::x86_tilerelease: return reinterpret_cast<void*>(&release);
    case llvm::Intrinsic::x86_tilezero: return reinterpret_cast<void*>(&zero);
    case llvm::Intrinsic::x86_tileloadd64: return reinterpret_cast<void*>(&load);
    case llvm::Intrinsic::x86_tilestored64: return reinterpret_cast<void*>(&store);
    case llvm::Intrinsic::x86_tdpbf16ps: return reinterpret_cast<void*>(&multiply_brains);
    case llvm::Intrinsic::x86_tdpbusd: return reinterpret_cast<void*>(&multiply_bytes);
    default: return nullptr;
  }
}

}  // namespace

void emulate_tiles(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> found;
  for (llvm::Function& function : module) {
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& instruction : block) {
        auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        if (call != nullptr && function_of(call->getIntrinsicID()) != nullptr)
          found.push_back(call);
      }
    }
  }
  for (llvm::IntrinsicInst* call : found) {
    llvm::IRBuilder<> builder(call);
    std::vector<llvm::Value*> arguments;
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : call->args()) {
      if (argument->getType()->isIntegerTy(8))
        argument = builder.CreateZExt(argument, builder.getInt32Ty());
      arguments.push_back(argument);
      types.push_back(argument->getType());
    }
    const auto address = reinterpret_cast<std::uintptr_t>(function_of(call->getIntrinsicID()));
    auto* place = builder.CreateIntToPtr(builder.getInt64(address), builder.getPtrTy());
    builder.CreateCall(llvm::FunctionType::get(builder.getVoidTy(), types, false), place,
                       arguments);
    call->eraseFromParent();
  }
}

std::string take_tile_fault() {
  Machine& state = machine();
  if (state.set) state.fail("the kernel left tiles set");
  release();
  return std::exchange(state.fault, {});
}

}  // namespace anydim::codegen_cpu::testing
