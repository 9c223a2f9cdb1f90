// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/mfu.h"

#include "gtest/gtest.h"

namespace stretto {
namespace {

constexpr ModelSpec Model(Family family, int hidden, int heads, int kv_heads, int ffn, int sequence,
                          int vocabulary) {
  return {.architecture = ArchitectureOf(family),
          .layers = 32,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn_hidden = ffn,
          .sequence_length = sequence,
          .vocab_size = vocabulary};
}
constexpr ModelSpec kGpt27 = Model(Family::kGpt, 2560, 32, 32, 10240, 2048, 50257);
constexpr ModelSpec kLlama7 = Model(Family::kLlama, 4096, 32, 32, 11008, 4096, 32000);
constexpr ModelSpec kLlama8 = Model(Family::kLlama, 4096, 32, 8, 14336, 8192, 128256);

// By hand: 6 (L (qkv + proj + mlp) + h v) + 6 L h S.
TEST(MfuTest, CountsEveryProductOfAToken) {
  // 6 (32 (3 + 1 + 8) 2560^2 + 2560 50257) + 6 32 2560 2048
  EXPECT_EQ(FlopsPerToken(kGpt27), 16'878'074'880.0);
  // 6 (32 (4 4096^2 + 3 4096 11008) + 4096 32000) + 6 32 4096 4096
  EXPECT_EQ(FlopsPerToken(kLlama7), 42'863'689'728.0);
  // Eight heads of keys and values: 6 (32 (4096^2 + 4096 6144 + 3 4096 14336) + 4096 128256) + 6 32
  // 4096 8192
  EXPECT_EQ(FlopsPerToken(kLlama8), 51'470'401'536.0);
}

// The head is a product also where its weights are the embedding's.
TEST(MfuTest, ATiedHeadTakesAsMuch) {
  for (ModelSpec model : {kGpt27, kLlama7}) {
    const double flops = FlopsPerToken(model);
    model.tied_head = !model.head_is_tied();
    EXPECT_EQ(FlopsPerToken(model), flops);
  }
}

TEST(MfuTest, IsTheShareOfThePeakThatTheModelTakesUp) {
  EXPECT_DOUBLE_EQ(Mfu(100, 2e9, 1, 1e12), 0.2);
  EXPECT_DOUBLE_EQ(Mfu(100, 2e9, 4, 1e12), 0.05);
  // 15,000 tokens/s of Llama-2 7B on an H200.
  EXPECT_NEAR(Mfu(15000, FlopsPerToken(kLlama7), 1, 989.4e12), 0.649844, 1e-6);
}

TEST(MfuTest, KnowsThePeaksOfSomeDevices) {
  EXPECT_EQ(PeakFlops("NVIDIA H200"), 989.4e12);
  EXPECT_EQ(PeakFlops("NVIDIA H100 80GB HBM3"), 989.4e12);
  EXPECT_EQ(PeakFlops("NVIDIA H100 PCIe"), 756.4e12);
  EXPECT_EQ(PeakFlops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(PeakFlops("Voodoo 2"), std::nullopt);
}

}  // namespace
}  // namespace stretto
