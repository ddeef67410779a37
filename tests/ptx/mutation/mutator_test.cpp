#include "tests/ptx/mutation/mutator.h"

#include <gtest/gtest.h>

#include "tests/ptx/mutation/statements.h"

namespace anydim::ptx {
namespace {

constexpr std::string_view text = R"(.version 9.0
.target sm_90a
.address_size 64
.global .align 4 .b8 table[4] = {1, 2, 3, 4};
// a comment; with a semicolon
.visible .entry kernel(
	.param .u64 kernel_param_0
)
.maxntid 128, 1, 1
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>;

$L__BB0_1:
	setp.lt.s32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_1;
	// begin inline asm
	{
.reg .pred P;
W_0: mbarrier.try_wait.parity.shared::cta.b64 P,[%r3],%r4;
@!P bra W_0;
}
	// end inline asm
	@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4096; bar.sync 	1, 128;
	xor.b32  	%r5, %r6, 64;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4},%rd1,%rd2,1,1,1,0,0;
	cp.async.wait_group 2;
	mapa.shared::cluster.u32 %r7, %r3, %r8;
	mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
	barrier.cluster.arrive.release.aligned;
	ret;
}
)";

TEST(Statements, OfAFunction) {
  const std::vector<Statement> statements = statements_of(text);
  ASSERT_EQ(statements.size(), 13u);
  EXPECT_EQ(statements[0].opcode, "setp.lt.s32");
  EXPECT_EQ(statements[0].operands, (std::vector<std::string>{"%p1", "%r1", "%r2"}));
  EXPECT_EQ(statements[0].line, 15);
  EXPECT_EQ(statements[1].guard, "@%p1 ");
  EXPECT_EQ(statements[2].opcode, "mbarrier.try_wait.parity.shared::cta.b64");
  EXPECT_EQ(statements[5].opcode, "bar.sync");
  EXPECT_EQ(statements[7].operands[0], "{%f1,%f2,%f3,%f4}");
  EXPECT_EQ(statements[12].opcode, "ret");
  EXPECT_TRUE(statements[12].operands.empty());
}

std::string replacement(std::string_view name) {
  for (const Mutant& mutant : mutants_of(text)) {
    if (mutant.name == name) return mutant.edits.front().replacement;
  }
  return "no such mutant";
}

TEST(Mutator, EveryKind) {
  EXPECT_EQ(replacement("ignore the bound of setp.lt.s32 #1"), "setp.eq.u32 %p1, 0, 0;");
  EXPECT_EQ(replacement("pass mbarrier.try_wait.parity.shared::cta.b64 #1"),
            "setp.eq.u32 P, 0, 0;");
  EXPECT_EQ(replacement("believe mbarrier.try_wait.parity.shared::cta.b64 #1"),
            "{ mbarrier.try_wait.parity.shared::cta.b64 P, [%r3], %r4; setp.eq.u32 P, 0, 0; }");
  EXPECT_EQ(replacement("invert parity of mbarrier.try_wait.parity.shared::cta.b64 #1"),
            "{ .reg .b32 %mutated; xor.b32 %mutated, %r4, 1; "
            "mbarrier.try_wait.parity.shared::cta.b64 P, [%r3], %mutated; }");
  EXPECT_EQ(replacement("delete mbarrier.arrive.expect_tx.shared::cta.b64 #1"), "");
  EXPECT_EQ(replacement("16 bytes fewer in mbarrier.arrive.expect_tx.shared::cta.b64 #1"),
            "{ .reg .b32 %mutated; add.u32 %mutated, 4096, -16; @%p2 "
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %mutated; }");
  EXPECT_EQ(replacement("a warp more in bar.sync #1"),
            "{ .reg .b32 %mutated; add.u32 %mutated, 128, 32; bar.sync 1, %mutated; }");
  EXPECT_EQ(replacement("leave out xor.b32 #1"), "mov.b32 %r5, %r6;");
  EXPECT_EQ(replacement("stride of B in wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 #1"),
            "{ .reg .b64 %mutated; add.s64 %mutated, %rd2, 0x1000000000; "
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, "
            "%mutated, 1, 1, 1, 0, 0; }");
  EXPECT_EQ(replacement("wait for one less in cp.async.wait_group #1"), "cp.async.wait_group 3;");
  EXPECT_EQ(replacement("exchange the block of mapa.shared::cluster.u32 #1"),
            "{ .reg .b32 %mutated; xor.b32 %mutated, %r8, 1; mapa.shared::cluster.u32 %r7, %r3, "
            "%mutated; }");
  EXPECT_EQ(replacement("relax mbarrier.arrive.release.cluster.shared::cluster.b64 #1"),
            "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r7];");
  EXPECT_EQ(replacement("relax barrier.cluster.arrive.release.aligned #1"),
            "barrier.cluster.arrive.relaxed.aligned ;");
  EXPECT_EQ(mutants_of(text).size(), 24u);
}

TEST(Mutator, ChangesOnlyItsPlaces) {
  for (const Mutant& mutant : mutants_of(text)) {
    const std::string changed = mutated(mutant, text);
    std::size_t size = text.size(), statements = statements_of(text).size();
    for (const Edit& edit : mutant.edits) {
      size += edit.replacement.size() - (edit.end - edit.begin);
      statements += edit.replacement.empty() ? -1 : edit.replacement.starts_with("{") ? 1 : 0;
    }
    EXPECT_EQ(changed.size(), size) << mutant.name;
    EXPECT_EQ(statements_of(changed).size(), statements) << mutant.name;
  }
}

TEST(Mutator, OppositeComparisonsChangeTogether) {
  const std::string_view pair = R"(
.entry kernel() {
  setp.lt.s32 %p1, %r1, %r2;
  setp.ge.s32 %p2, %r1, %r2;
  setp.gt.s32 %p3, %r1, %r2;
})";
  const std::vector<Mutant> mutants = mutants_of(pair);
  ASSERT_EQ(mutants.size(), 2u);
  EXPECT_EQ(mutants[0].lines, (std::vector<int>{3, 4}));
  EXPECT_NE(mutated(mutants[0], pair).find("setp.eq.u32 %p1, 0, 0;\n  setp.ne.u32 %p2, 0, 0;"),
            std::string::npos);
  EXPECT_EQ(mutants[1].lines, (std::vector<int>{5}));
}

}  // namespace
}  // namespace anydim::ptx
