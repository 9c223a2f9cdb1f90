#include "worker/engine/spec/spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

TEST(EvenSlicesTest, LargerSlicesComeFirst) {
  EXPECT_THAT(EvenSlices(4, 2), ElementsAre(2, 2));
  EXPECT_THAT(EvenSlices(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(EvenSlices(3, 1), ElementsAre(3));
}

TEST(PaddedVocabTest, IsTheNextMultipleOf128) {
  ModelSpec model;
  for (const auto& [size, padded] :
       std::vector<std::pair<int, int>>{{2, 128}, {128, 128}, {129, 256}, {50257, 50304}}) {
    model.vocab_size = size;
    EXPECT_EQ(model.padded_vocab(), padded);
  }
}

struct BadSpec {
  void (*change)(EngineSpec*);
  const char* message;
};

TEST(ValidateTest, NamesTheFieldFoundAndExpected) {
  const std::vector<BadSpec> cases = {
      {[](EngineSpec* s) { s->tp_size = 0; }, "tp_size: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.layers = 0; }, "model.layers: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.hidden = -8; }, "model.hidden: found -8, expected at least 1"},
      {[](EngineSpec* s) { s->model.heads = 0; }, "model.heads: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.ffn_hidden = 0; },
       "model.ffn_hidden: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.sequence_length = 0; },
       "model.sequence_length: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.vocab_size = 1; },
       "model.vocab_size: found 1, expected at least 2"},
      {[](EngineSpec* s) { s->model.heads = 3; },
       "model.heads: found 3, expected a divisor of hidden 8"},
      {[](EngineSpec* s) { s->tp_size = 3; }, "tp_size: found 3, expected a divisor of heads 4"},
      {[](EngineSpec* s) { s->model.ffn_hidden = 7; },
       "tp_size: found 2, expected a divisor of ffn_hidden 7"},
      {[](EngineSpec* s) { s->model = {1, 768, 768, 768, 4, 100}, s->tp_size = 768; },
       "tp_size: found 768, expected a divisor of the padded vocabulary 128"},
      {[](EngineSpec* s) { s->micro_batch_size = 0; },
       "micro_batch_size: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->micro_batches = 0; }, "micro_batches: found 0, expected at least 1"},
      {[](EngineSpec* s) {
         s->schedule.slices = {2, 0};
       },
       "schedule.slice_sizes: found 0, expected at least 1 sequence in a slice"},
      {[](EngineSpec* s) {
         s->schedule.slices = {2, 1};
       },
       "schedule.slice_sizes: found 3, expected slices that sum to micro_batch_size 2, not 2+1"},
      {[](EngineSpec* s) { s->schedule.slices = {}; },
       "schedule.slice_sizes: found 0, expected slices that sum to"},
  };
  for (const BadSpec& bad : cases) {
    EngineSpec spec = SpecOf({});
    bad.change(&spec);
    const absl::Status status = Validate(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(bad.message));
    EXPECT_EQ(BuildPlans(spec).status(), status);
  }
}

TEST(ValidateTest, GoodSpecsPass) {
  for (const Shape& shape : ManyShapes())
    EXPECT_TRUE(Validate(SpecOf(shape)).ok()) << Describe(shape);
}

}  // namespace
}  // namespace stretto
