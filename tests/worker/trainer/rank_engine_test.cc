// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/rank_engine.h"

#include "kernels/bf16.h"
#include "tests/worker/trainer/tiny_job.h"

namespace stretto::trainer {
namespace {

class RankEngineTest : public TinyJobTest {
 protected:
  RankEngineTest() { config_.engine.dtype = DType::kBF16; }

  // Expects that the weight of every parameter is its master, rounded.
  static void ExpectRounded(RankEngine& engine) {
    const IdVector<BufferId, Buffer>& buffers = engine.program().buffers;
    for (size_t i = 0; i < engine.parameters().size(); ++i) {
      const std::string& name = engine.parameters()[i].name;
      const auto master = engine.Held(i, Slot::kMaster);
      ASSERT_TRUE(master.ok()) << master.status();
      int found = 0;
      for (BufferId id : buffers.ids()) {
        if (buffers[id].name != name || buffers[id].arena != ArenaClass::kParameter) continue;
        ++found;
        const auto weight = engine.executor().Read(id);
        ASSERT_TRUE(weight.ok()) << weight.status();
        ASSERT_EQ(weight->count(), std::ssize(*master)) << name;
        for (size_t k = 0; k < master->size(); ++k)
          ASSERT_EQ(weight->as<BF16>()[k].bits, ToBF16((*master)[k]).bits) << name << " " << k;
      }
      EXPECT_EQ(found, 1) << name;
    }
  }
};

TEST_F(RankEngineTest, WeightsInBf16AreTheRoundedMasters) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  ExpectRounded(*engine);

  const auto copy = MakeEngine();
  ASSERT_TRUE(copy->CopyStateFrom(*engine).ok());
  ExpectRounded(*copy);

  float next = 0;
  ASSERT_TRUE(copy->SetState([&](const Parameter& box, Slot, float* values) {
                    for (int64_t k = 0; k < box.count(); ++k) values[k] = next += 0.37f;
                    return absl::OkStatus();
                  })
                  .ok());
  ExpectRounded(*copy);
}

}  // namespace
}  // namespace stretto::trainer
