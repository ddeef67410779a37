#include "codegen_cpu/compile.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

constexpr const char* triple = "x86_64-unknown-linux-gnu";

void initialise_llvm() {
  static const bool done = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  static_cast<void>(done);
}

// The emitters already vectorise, unroll and hoist; what is left is registers for variables,
// repeated and foldable arithmetic, and invariant code that only shows after those. Loop idioms,
// vectorisers and library-call folding never run: they would call memset and libm.
void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  llvm::TargetLibraryInfoImpl libraries{llvm::Triple(triple)};
  libraries.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(libraries); });
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graph);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graph, modules);

  llvm::FunctionPassManager pipeline;
  pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  pipeline.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1)));
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                         /*UseMemorySSA=*/true));
  pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) pipeline.run(function, functions);
  }
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  initialise_llvm();
  std::string problem;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, problem);
  internal_check(found != nullptr, "this LLVM generates code for x86-64");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where the emitter says so
  options.FunctionSections = false;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, target.llvm_processor(), target.llvm_features(), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  internal_check(machine != nullptr, "LLVM made a target machine");
  return machine;
}

Blob compile_module(llvm::Module& module, llvm::TargetMachine& machine,
                    std::span<const std::string> entries) {
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) {
    throw Error(ErrorKind::Internal,
                "internal error: generated code is ill-formed: {}; please report this as a bug",
                problems.str());
  }
  optimise(module, machine);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emission;
  llvm::TargetLibraryInfoImpl libraries{llvm::Triple(triple)};
  libraries.disableAllFunctions();
  emission.add(new llvm::TargetLibraryInfoWrapperPass(libraries));
  internal_check(
      !machine.addPassesToEmitFile(emission, stream, nullptr, llvm::CodeGenFileType::ObjectFile),
      "LLVM writes object files");
  emission.run(module);
  return link_blob(std::as_bytes(std::span(object.data(), object.size())), entries);
}

}  // namespace anydim::codegen_cpu
