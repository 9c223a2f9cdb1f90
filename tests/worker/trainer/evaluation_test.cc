// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/data/tokenizer_info.h"
#include "worker/trainer/held_out_data.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

absl::StatusOr<bool> GoOn() { return false; }

class EvaluationTest : public TinyJobTest {
 protected:
  EvaluationTest() {
    config_.engine.model.heads = 4;
    config_.engine.micro_batch_size = 2;
    config_.evaluation = {.interval_steps = 1, .batches = 3, .prefix = "text"};
    held_out_ = OpenHeldOut(config_, data_).value();
  }

  void Write(const std::string& name, int count) {
    auto writer = IndexedDatasetWriter::Create(folder_ / name, TokenType::kU16, true);
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 100);
    ASSERT_TRUE(writer->AddDocument(tokens).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }

  // What one rank stands on.
  struct Rank {
    std::unique_ptr<Ops> ops = MakeCpuOps();
    std::unique_ptr<Backend> backend = MakeCpuBackend(*ops);
    std::unique_ptr<RankEngine> engine;
    std::unique_ptr<Evaluation> evaluation;
  };

  absl::Status Open(const LocalRank& local, Rank* rank) {
    const JobConfig& config = local.config;
    RankPlan plan = BuildPlan(config.engine, config.rank).value();
    EXPECT_TRUE(
        MakeRoomForEvaluation(config.engine, config.evaluation.batches, config.rank, &plan.arenas)
            .ok());
    rank->engine = RankEngine::Create(config.engine, config.rank, std::move(plan), local.links(),
                                      *rank->backend, {})
                       .value();
    EXPECT_TRUE(rank->engine->Initialise(1).ok());
    auto evaluation = Evaluation::Create(config, *held_out_.sampler, *rank->engine, local.links(),
                                         *local.control, *rank->backend, {});
    if (!evaluation.ok()) return evaluation.status();
    rank->evaluation = *std::move(evaluation);
    return absl::OkStatus();
  }

  // Runs `body` on every rank, in threads.
  void OnAllRanks(const std::function<void(const JobConfig&, Rank&)>& body) {
    OnLocalRanks(config_, [&](LocalRank& local) {
      Rank rank;
      ASSERT_EQ(Open(local, &rank), absl::OkStatus());
      body(local.config, rank);
    });
  }

  // The held-out loss, which is the same on all ranks.
  double Evaluated() {
    std::vector<double> losses(static_cast<size_t>(config_.engine.world_size()));
    OnAllRanks([&](const JobConfig& config, Rank& rank) {
      losses[config.rank.position()] = rank.evaluation->MeanLoss(GoOn).value().value();
    });
    for (double loss : losses) EXPECT_EQ(loss, losses[0]);
    return losses[0];
  }

  // The held-out loss, and that of a training step on the same tokens and weights.
  std::pair<double, double> Losses() {
    std::vector<std::pair<double, double>> losses(static_cast<size_t>(config_.engine.world_size()));
    OnAllRanks([&](const JobConfig& config, Rank& rank) {
      auto& [evaluated, trained] = losses[config.rank.position()];
      evaluated = rank.evaluation->MeanLoss(GoOn).value().value();
      ASSERT_TRUE(FillStep(config, *held_out_.sampler, 0, 1, 0, *rank.engine).ok());
      ASSERT_TRUE(rank.engine->executor().Run().ok());
      trained = rank.engine->MeanLoss();
    });
    for (const auto& other : losses) EXPECT_EQ(other, losses[0]);
    return losses[0];
  }

  TrainingData data_ = TrainingData::Open(config_.data).value();
  HeldOutData held_out_;
};

TEST_F(EvaluationTest, HasTheLossThatAStepHasOnTheSameTokensBitForBit) {
  for (int tp_size : {1, 2, 4}) {
    for (const char* schedule :
         {"megatron_sync", "domino_row", "domino_col", "nanotron", "helix"}) {
      for (bool sequence_parallel : {false, true}) {
        SCOPED_TRACE(absl::StrCat(schedule, " ", tp_size, " ", sequence_parallel));
        const bool sliced =
            schedule == std::string("domino_row") || schedule == std::string("nanotron");
        config_.engine.tp_size = tp_size;
        config_.engine.schedule = {.name = schedule,
                                   .slices = sliced ? std::vector<int>{1, 1} : std::vector<int>{2},
                                   .splits = schedule == std::string("domino_col") ? 2 : 1,
                                   .sequence_parallel = sequence_parallel};
        const auto [evaluated, trained] = Losses();
        EXPECT_GT(evaluated, 0);
        EXPECT_EQ(evaluated, trained);
      }
    }
  }
}

// The held-out loss has the mask of training.
TEST_F(EvaluationTest, DocumentsAreApartAsInAStep) {
  auto writer = IndexedDatasetWriter::Create(folder_ / "pages", TokenType::kU16, true);
  for (int32_t page = 0; page < 30; ++page)
    ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{page, page + 7, page + 1}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  config_.evaluation.prefix = "pages";
  held_out_ = OpenHeldOut(config_, data_).value();
  config_.engine.tp_size = 2;
  const double whole = Evaluated();
  config_.engine.document_mask = true;
  const auto [evaluated, trained] = Losses();
  EXPECT_EQ(evaluated, trained);
  EXPECT_NE(evaluated, whole);
}

// Replicas share the batches, of which there is one more than turns are full.
TEST_F(EvaluationTest, ReplicasHaveTheBitsOfOne) {
  config_.engine.micro_batches = 1;
  for (int tp_size : {1, 2}) {
    config_.engine.tp_size = tp_size;
    config_.engine.dp_size = 1;
    const double one = Evaluated();
    for (int dp_size : {2, 4}) {
      for (int zero : {0, 1}) {
        config_.engine.dp_size = dp_size;
        config_.engine.zero = zero;
        EXPECT_EQ(Evaluated(), one) << dp_size << " " << zero;
      }
    }
    config_.engine.zero = 0;
  }
}

// A run has several batches in flight, of which the last run may lack some.
TEST_F(EvaluationTest, StagesHaveTheBitsOfOne) {
  config_.engine.model.layers = 4;
  config_.engine.tp_size = 1;
  for (int batches : {1, 3, 17}) {
    config_.evaluation.batches = batches;
    config_.engine.pp_size = config_.engine.dp_size = 1;
    const double one = Evaluated();
    for (int stages : {2, 4}) {
      for (const auto& [replicas, zero] : {std::pair(1, 0), {2, 0}, {2, 1}}) {
        config_.engine.pp_size = stages;
        config_.engine.dp_size = replicas;
        config_.engine.zero = zero;
        EXPECT_EQ(Evaluated(), one) << stages << " x " << replicas << ", " << batches;
      }
    }
    config_.engine.zero = 0;
    config_.engine.dp_size = 1;
    config_.engine.pp_size = config_.engine.chunks_per_stage = config_.engine.micro_batches = 2;
    config_.engine.schedule.pipeline = "interleaved_1f1b";
    EXPECT_EQ(Evaluated(), one) << batches << " in chunks";
    config_.engine.chunks_per_stage = 1;
    config_.engine.schedule.pipeline = kDefaultPipeline;
  }
}

// A replica of a stage may have several batches in a micro-batch, of which the last may lack some.
TEST_F(EvaluationTest, UnlikeReplicasHaveTheBitsOfOne) {
  config_.engine.model.layers = 2;
  config_.engine.tp_size = 1;
  for (int batches : {1, 3, 17}) {
    config_.evaluation.batches = batches;
    config_.engine.pp_size = config_.engine.dp_size = 1;
    config_.engine.stages.clear();
    const double one = Evaluated();
    config_.engine.pp_size = 2;
    config_.engine.dp_size = 6;
    for (const auto& [first, last] : {std::pair(2, 1), {1, 2}, {2, 3}, {6, 1}}) {
      config_.engine.stages = {{.layers = 1, .dp_size = first}, {.layers = 1, .dp_size = last}};
      EXPECT_EQ(Evaluated(), one) << first << " and " << last << ", " << batches;
    }
  }
}

// The other ranks wait for it in the forward pass, so it must return before theirs ends.
TEST_F(EvaluationTest, ARankThatCannotReadEndsItForAll) {
  const Sampler good = *held_out_.sampler;
  config_.engine.micro_batches = 1;
  config_.engine.tp_size = 1;
  config_.engine.model.layers = 2;
  for (const auto& [stages, replicas] : {std::pair(1, 2), {2, 1}}) {
    config_.engine.pp_size = stages;
    config_.engine.dp_size = replicas;
    config_.engine.zero = replicas - 1;
    std::vector<absl::Status> found(2);
    OnLocalRanks(config_, [&](LocalRank& local) {
      Rank rank;
      ASSERT_EQ(Open(local, &rank), absl::OkStatus());
      const Sampler bad =
          Sampler::Create(*dataset_, {.sequence_length = 8, .vocab_size = 40, .shuffle = false})
              .value();
      const bool fails = local.config.rank == 0;
      rank.evaluation = Evaluation::Create(local.config, fails ? bad : good, *rank.engine,
                                           local.links(), *local.control, *rank.backend, {})
                            .value();
      found[local.config.rank.position()] = rank.evaluation->MeanLoss(GoOn).status();
      // As the end of its process would.
      rank.engine->executor().Cancel();
      local.control->Abort();
    });
    EXPECT_EQ(found[0].code(), absl::StatusCode::kInvalidArgument) << found[0];
    EXPECT_FALSE(found[1].ok());
  }
}

// Within the bound of tests/parity/expect.h for another order of all sums in f32.
TEST_F(EvaluationTest, OneTwoAndFourRanksAgree) {
  const double one = Losses().first;
  for (int tp_size : {2, 4}) {
    config_.engine.tp_size = tp_size;
    EXPECT_NEAR(Losses().first, one, 1e-5 * one) << tp_size;
  }
}

TEST_F(EvaluationTest, DropsNothing) {
  const double plain = Losses().first;
  config_.engine.model.dropout = 0.5;
  const auto [evaluated, trained] = Losses();
  EXPECT_EQ(evaluated, plain);
  EXPECT_NE(trained, plain);
}

TEST_F(EvaluationTest, Bf16WeightsAreThoseOfTheStep) {
  config_.engine.dtype = config_.engine.wire_dtype = DType::kBF16;
  config_.engine.tp_size = 2;
  const auto [evaluated, trained] = Losses();
  EXPECT_EQ(evaluated, trained);
}

TEST_F(EvaluationTest, MeasuresTheFirstBatchesOfTheDataEachTime) {
  config_.evaluation.batches = 2;
  OnAllRanks([&](const JobConfig&, Rank& rank) {
    EXPECT_EQ(rank.evaluation->tokens(), 2 * 2 * 8);
    const double first = rank.evaluation->MeanLoss(GoOn).value().value();
    EXPECT_EQ(rank.evaluation->MeanLoss(GoOn).value().value(), first);
  });
  const double two = Losses().first;
  config_.evaluation.batches = 4;
  EXPECT_NE(Losses().first, two);
}

TEST_F(EvaluationTest, IsGivenUpBeforeARunWhenAskedTo) {
  config_.evaluation.batches = 5;  // a run of three and one of two
  OnAllRanks([&](const JobConfig&, Rank& rank) {
    int asked = 0;
    const auto second = [&]() -> absl::StatusOr<bool> { return ++asked == 2; };
    EXPECT_FALSE(rank.evaluation->MeanLoss(second).value().has_value());
    const auto lost = []() -> absl::StatusOr<bool> { return absl::UnavailableError("peer"); };
    EXPECT_EQ(rank.evaluation->MeanLoss(lost).status(), absl::UnavailableError("peer"));
  });
}

TEST_F(EvaluationTest, ATokenOutsideTheVocabularyNamesItsPlace) {
  config_.engine.model.vocab_size = 40;
  const Sampler held_out =
      Sampler::Create(*dataset_, {.sequence_length = 8, .vocab_size = 40, .shuffle = false})
          .value();
  held_out_.sampler = &held_out;
  OnAllRanks([&](const JobConfig&, Rank& rank) {
    const absl::Status status = rank.evaluation->MeanLoss(GoOn).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("text.bin"));
  });
}

// 97 tokens are 12 sequences.
TEST_F(EvaluationTest, DataThatIsTooShortIsRefused) {
  config_.evaluation.batches = 6;
  EXPECT_TRUE(OpenHeldOut(config_, data_).ok());
  config_.evaluation.batches = 7;
  EXPECT_EQ(OpenHeldOut(config_, data_).status(),
            absl::InvalidArgumentError(
                absl::StrCat("eval.batches: found 7 batches of 2 sequences, expected at most 6: ",
                             folder_ / "text", " has 12 sequences of 8 tokens")));
}

// Of a fifth of its 97 tokens "text" has 2 sequences, and of 400 "more" has 9: two turns in three
// are the small one's.
TEST_F(EvaluationTest, APartOfABlendThatWouldBeginAnewIsRefused) {
  Write("more", 400);
  config_.data.parts = {{"text", 2}, {"more", 1}};
  config_.data.held_out = 0.2;
  config_.evaluation.prefix = "";
  config_.engine.micro_batch_size = 1;
  const TrainingData data = TrainingData::Open(config_.data).value();
  EXPECT_EQ(data.held_out()->samples_per_epoch(), 2 + 9);
  EXPECT_TRUE(OpenHeldOut(config_, data).ok()) << OpenHeldOut(config_, data).status();
  config_.evaluation.batches = 11;
  EXPECT_EQ(OpenHeldOut(config_, data).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "eval.batches: found 11 batches of 1 sequences, expected at most 3: the held-out "
                "part of ",
                folder_ / "text", " has 2 sequences of 8 tokens")));
}

// A token that is not among the first, which are read when data is opened.
TEST_F(EvaluationTest, ATokenOutsideTheVocabularyIsRefusedBeforeTraining) {
  config_.data.held_out = 0.3;
  config_.evaluation.prefix = "";
  config_.engine.micro_batch_size = 1;
  const TrainingData data = TrainingData::Open(config_.data).value();
  ASSERT_TRUE(OpenHeldOut(config_, data).ok());
  const int64_t at = data.held_out()->Locate(2).second + 3;
  std::fstream file(folder_ / "text.bin", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at * 2);
  file.write("\x7f", 1);
  file.close();
  const absl::Status status = OpenHeldOut(config_, data).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("text.bin"));
  config_.evaluation.batches = 2;  // which do not have it
  EXPECT_TRUE(OpenHeldOut(config_, data).ok());
}

TEST_F(EvaluationTest, DataOfAnotherTokenizerIsFoundWrong) {
  Write("held", 100);
  ASSERT_TRUE(WriteTokenizerInfo(folder_ / "text", {"bytes", 100, 99, "abc"}).ok());
  ASSERT_TRUE(WriteTokenizerInfo(folder_ / "held", {"bytes", 100, 99, "def"}).ok());
  config_.evaluation.prefix = "held";
  const TrainingData data = TrainingData::Open(config_.data).value();
  EXPECT_EQ(OpenHeldOut(config_, data).status(),
            absl::InvalidArgumentError(absl::StrCat(
                folder_ / "held", ".tokenizer.json: found a tokenizer with hash def, expected abc ",
                "as in ", folder_ / "text", ".tokenizer.json")));
}

TEST_F(EvaluationTest, DataThatCannotBeReadIsRefused) {
  config_.data.vocab_size = 40;
  EXPECT_EQ(OpenHeldOut(config_, data_).status().code(), absl::StatusCode::kInvalidArgument);
  config_.evaluation.prefix = "none";
  EXPECT_EQ(OpenHeldOut(config_, data_).status().code(), absl::StatusCode::kNotFound);
  config_.evaluation.prefix = "";
  EXPECT_THAT(std::string(OpenHeldOut(config_, data_).status().message()),
              HasSubstr("eval.prefix: found none, expected one"));
}

// A program that computes nothing has no activations.
TEST_F(EvaluationTest, WithoutRoomInTheActivationsItIsRefused) {
  const auto tp = LocalGroup::Create(1);
  const auto training =
      RankEngine::Create(config_.engine, 0, Variant::kCommunicationOnly, {}, *backend_, {}).value();
  EXPECT_EQ(Evaluation::Create(config_, *held_out_.sampler, *training, {}, *tp[0], *backend_, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto::trainer
