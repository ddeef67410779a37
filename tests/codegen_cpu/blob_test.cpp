#include "codegen_cpu/blob.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "codegen_cpu/compile.h"
#include "ir/error.h"
#include "runtime/code_memory.h"

namespace anydim::codegen_cpu::testing {
namespace {

const std::array<std::string, 1> entry_names{"entry"};

// A module with i64 entry(i64).
struct TestModule {
  TestModule() {
    module.setTargetTriple(machine->getTargetTriple().str());
    module.setDataLayout(machine->createDataLayout());
    auto* i64 = code.getInt64Ty();
    entry = llvm::Function::Create(llvm::FunctionType::get(i64, {i64}, false),
                                   llvm::GlobalValue::ExternalLinkage, "entry", module);
    code.SetInsertPoint(llvm::BasicBlock::Create(context, "start", entry));
  }
  Blob compile() { return compile_module(module, *machine, entry_names); }

  std::unique_ptr<llvm::TargetMachine> machine = make_machine(detect_target("x86-64"));
  llvm::LLVMContext context;
  llvm::Module module{"test", context};
  llvm::IRBuilder<> code{context};
  llvm::Function* entry = nullptr;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    return error.what();
  }
  return "no error";
}

std::string refused(const std::string& why) {
  return "internal error: generated code cannot become a blob: " + why +
         "; please report this as a bug";
}

TEST(Blob, RunsWithTablesAndLocalCalls) {
  TestModule test;
  auto* i64 = test.code.getInt64Ty();
  std::vector<std::uint64_t> squares;
  for (std::uint64_t i = 0; i < 100; ++i) squares.push_back(i * i);
  auto* table =
      new llvm::GlobalVariable(test.module, llvm::ArrayType::get(i64, squares.size()), true,
                               llvm::GlobalValue::InternalLinkage,
                               llvm::ConstantDataArray::get(test.context, squares), "squares");
  auto* helper = llvm::Function::Create(llvm::FunctionType::get(i64, {i64}, false),
                                        llvm::GlobalValue::InternalLinkage, "helper", test.module);
  helper->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> inner(llvm::BasicBlock::Create(test.context, "start", helper));
  inner.CreateRet(inner.CreateLoad(i64, inner.CreateGEP(i64, table, helper->getArg(0))));
  test.code.CreateRet(test.code.CreateAdd(test.code.CreateCall(helper, {test.entry->getArg(0)}),
                                          test.code.getInt64(1)));
  const Blob blob = test.compile();
  void* base =
      mmap(nullptr, blob.bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(base, MAP_FAILED);
  std::memcpy(base, blob.bytes.data(), blob.bytes.size());
  ASSERT_EQ(mprotect(base, blob.bytes.size(), PROT_READ | PROT_EXEC), 0);
  const auto entry = reinterpret_cast<std::int64_t (*)(std::int64_t)>(static_cast<char*>(base) +
                                                                      blob.entry_offsets.at(0));
  EXPECT_EQ(runtime::call_generated(entry, std::int64_t{0}), 1);
  EXPECT_EQ(runtime::call_generated(entry, std::int64_t{99}), 99 * 99 + 1);
  munmap(base, blob.bytes.size());
}

TEST(Blob, RefusesUndefinedSymbols) {
  TestModule test;
  auto outside = test.module.getOrInsertFunction("somewhere_else", test.entry->getFunctionType());
  test.code.CreateRet(test.code.CreateCall(outside, {test.entry->getArg(0)}));
  EXPECT_EQ(message_of([&] { test.compile(); }), refused("symbol somewhere_else is undefined"));
}

TEST(Blob, RefusesWritableData) {
  TestModule test;
  auto* i64 = test.code.getInt64Ty();
  auto* counter =
      new llvm::GlobalVariable(test.module, i64, false, llvm::GlobalValue::InternalLinkage,
                               test.code.getInt64(5), "counter");
  auto* old = test.code.CreateLoad(i64, counter);
  test.code.CreateStore(test.code.CreateAdd(old, test.entry->getArg(0)), counter);
  test.code.CreateRet(old);
  EXPECT_EQ(message_of([&] { test.compile(); }), refused("section .data is writable"));
}

TEST(Blob, RefusesMissingEntryAndDamagedObjects) {
  TestModule test;
  test.code.CreateRet(test.entry->getArg(0));
  EXPECT_EQ(message_of([&] {
              compile_module(test.module, *test.machine,
                             std::array<std::string, 2>{"entry", "other"});
            }),
            refused("the object has no symbol other"));
  std::vector<std::byte> nothing;
  EXPECT_EQ(message_of([&] { link_blob(nothing, entry_names); }),
            refused("the object is truncated"));
  std::vector<std::byte> noise(sizeof(Elf64_Ehdr), std::byte{7});
  EXPECT_EQ(message_of([&] { link_blob(noise, entry_names); }),
            refused("the object is not relocatable x86-64 ELF"));
}

TEST(Compile, RefusesIllFormedModules) {
  TestModule test;  // no terminator
  EXPECT_NE(message_of([&] { test.compile(); }).find("generated code is ill-formed"),
            std::string::npos);
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
