// SPDX-License-Identifier: Apache-2.0

// The products' own logic, on a cuBLASLt that counts what it is asked.
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cublaslt_products.h"
#include "tests/kernels/fake_cublaslt.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class CublasLtTest : public testing::Test {
 protected:
  CublasLtTest() {
    fake_.Reset();
    // The fastest splits sums, the next cannot be launched, the fourth is the best that remains.
    fake_.choices = {{.microseconds = 1, .splits = 4},
                     {.microseconds = 9},
                     {.microseconds = 2, .runs = false},
                     {.microseconds = 5}};
  }

  std::unique_ptr<MatrixProducts> Make(bool pin = true, bool tune = true) {
    return *MakeCublasLtProducts({.workspace = workspace_,
                                  .tunings = &tunings_,
                                  .pin = pin,
                                  .pinned_tokens = 8,
                                  .tune = tune});
  }
  // One product of that many tokens.
  void Gemm(MatrixProducts& products, int64_t tokens) {
    Tensor x = Tensor(DType::kBF16, tokens, 8).Fill(1), w = Tensor(DType::kBF16, 16, 8).Fill(2);
    Tensor y(DType::kBF16, tokens, 16);
    products.Gemm(x.view(), w.view(), {}, y.view());
  }
  int Launched(int algorithm) { return fake_.launches[algorithm]; }

  FakeCublasLt& fake_ = FakeCublasLt::Get();
  cuda::Tunings tunings_ = *TuningsOfDevice();
  char workspace_[16];
};

TEST_F(CublasLtTest, ProductsAreThoseOfTheCpu) {
  const std::unique_ptr<Ops> cpu = MakeCpuOps();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto products = Make();
    const int64_t n = 7, c = 6, k = 10;
    Tensor x = Tensor(dtype, n, k).Fill(1), w = Tensor(dtype, c, k).Fill(2);
    Tensor bias = Tensor(dtype, 1, c).Fill(3), y(dtype, n, c), expected(dtype, n, c);
    for (const TensorView& b : {bias.view(), TensorView{}}) {
      products->Gemm(x.view(), w.view(), b, y.view());
      cpu->Gemm(x.view(), w.view(), b, expected.view());
      ExpectNear(y, expected.doubles());
    }
    for (const auto& [first, width] : {std::pair<int64_t, int64_t>{0, k}, {0, 5}, {5, 5}, {3, 1}}) {
      Tensor dx(dtype, n, width), expected_dx(dtype, n, width);
      products->GemmDgrad(y.view(), w.view(), first, dx.view());
      cpu->GemmDgrad(y.view(), w.view(), first, expected_dx.view());
      ExpectNear(dx, expected_dx.doubles());
    }
    Tensor dw = Tensor(DType::kF32, c, k).Fill(4), expected_dw = dw;
    products->GemmWgrad(y.view(), x.view(), dw.view());
    cpu->GemmWgrad(y.view(), x.view(), expected_dw.view());
    ExpectNear(dw, expected_dw.doubles());
    EXPECT_STREQ(products->error(), "");
  }
}

TEST_F(CublasLtTest, TheFastestThatRunsAndAddsInOneGoIsChosenOnce) {
  const auto products = Make();
  Gemm(*products, 8);
  EXPECT_EQ(Launched(0), 0);
  EXPECT_GT(Launched(1), 0);  // timed
  const int timed = Launched(3);
  fake_.launches.clear();
  Gemm(*products, 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(3, 1)));
  EXPECT_GT(timed, 1);
  EXPECT_EQ(fake_.heuristics, 1);
  EXPECT_THAT(tunings_.Print(), AllOf(HasSubstr("us 5 "), HasSubstr("device Fake GPU\n"),
                                      HasSubstr("library 130100\n")));
}

TEST_F(CublasLtTest, EveryNewChoiceIsToldBeforeItIsUsed) {
  int told = 0;
  const auto products =
      *MakeCublasLtProducts({.workspace = workspace_,
                             .tunings = &tunings_,
                             .on_choice =
                                 [&] {
                                   ++told;
                                   EXPECT_THAT(tunings_.Print(), HasSubstr("us 5 "));
                                 },
                             .pinned_tokens = 8});
  for (const int64_t tokens : {8, 8, 3}) Gemm(*products, tokens);
  EXPECT_EQ(told, 1);
}

TEST_F(CublasLtTest, OnePinnedAlgorithmServesAllTokensAndSmLimits) {
  const auto products = Make();
  Gemm(*products, 8);
  fake_.launches.clear();
  fake_.sm_targets.clear();
  for (const int64_t tokens : {1, 3, 5}) Gemm(*products, tokens);
  products->LimitSms(100);
  Gemm(*products, 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(3, 4)));
  EXPECT_THAT(fake_.sm_targets, ElementsAre(Pair(0, 3), Pair(100, 1)));
  EXPECT_EQ(fake_.heuristics, 1);
}

class CompanyTest : public CublasLtTest {
 protected:
  std::unique_ptr<MatrixProducts> MakeWithCompany() {
    return *MakeCublasLtProducts({.workspace = workspace_,
                                  .tunings = &tunings_,
                                  .company = {.sms_left = 100,
                                              .begin =
                                                  [this](std::chrono::nanoseconds hold, void*) {
                                                    holds_.push_back(hold.count());
                                                    fake_.company = true;
                                                    return refusal_;
                                                  }},
                                  .pinned_tokens = 8});
  }
  std::vector<int64_t> holds_;
  const char* refusal_ = nullptr;
};

TEST_F(CompanyTest, TheTimeBesideItDecidesToo) {
  fake_.choices = {{.microseconds = 50, .beside = 99, .limited = 90},
                   {.microseconds = 60, .beside = 62, .limited = 80},
                   {.microseconds = 64, .beside = 70, .limited = 63},
                   // Too slow alone to be timed beside it.
                   {.microseconds = 66, .beside = 1, .limited = 1}};
  Gemm(*Make(), 8);
  EXPECT_THAT(tunings_.Print(), AllOf(HasSubstr("sms 0 us 50 limited 1"), HasSubstr("end 1")));

  const auto products = MakeWithCompany();
  Gemm(*products, 8);
  EXPECT_THAT(tunings_.Print(), AllOf(HasSubstr("sms 100 us 60 limited 0"), HasSubstr("end 2")));
  fake_.launches.clear();
  fake_.sm_targets.clear();
  for (const int sms : {0, 100}) {
    products->LimitSms(sms);
    for (const int64_t tokens : {8, 3}) Gemm(*products, tokens);
  }
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(1, 4)));
  EXPECT_THAT(fake_.sm_targets, ElementsAre(Pair(0, 4)));  // it is faster without the limit
  EXPECT_EQ(fake_.heuristics, 3);                          // alone; for all SMs and for 100

  // It stays for longer than five products that take twice as long as alone.
  for (const int64_t hold : holds_) EXPECT_GE(hold, 5 * 2 * 50'000);
}

TEST_F(CompanyTest, AProductThatIsFasterUnderTheLimitKeepsIt) {
  fake_.choices = {{.microseconds = 60, .beside = 99, .limited = 90},
                   {.microseconds = 64, .beside = 70, .limited = 63}};
  const auto products = MakeWithCompany();
  products->LimitSms(100);
  Gemm(*products, 8);
  EXPECT_THAT(tunings_.Print(), HasSubstr("sms 100 us 64 limited 1"));
  fake_.sm_targets.clear();
  Gemm(*products, 8);
  EXPECT_THAT(fake_.sm_targets, ElementsAre(Pair(100, 1)));
}

TEST_F(CompanyTest, CompanyThatCannotBeginIsAnError) {
  refusal_ = "no such kernel";
  const auto products = MakeWithCompany();
  Gemm(*products, 8);
  EXPECT_THAT(products->error(), AllOf(HasSubstr("product of m 16 n 8 k 8"),
                                       HasSubstr("company of a product: no such kernel")));
}

TEST_F(CublasLtTest, WithoutPinningEachShapeIsMeasuredForItself) {
  const auto products = Make(/*pin=*/false);
  Gemm(*products, 8);
  products->LimitSms(100);
  Gemm(*products, 8);
  EXPECT_EQ(fake_.heuristics, 2);
  fake_.launches.clear();
  Gemm(*products, 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(0, 1)));  // split sums are allowed
}

TEST_F(CublasLtTest, StoredChoicesAreNotMeasuredAgain) {
  Gemm(*Make(), 8);
  fake_.launches.clear();
  Gemm(*Make(), 5);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(3, 1)));
  EXPECT_EQ(fake_.heuristics, 1);
}

TEST_F(CublasLtTest, WordsThatAreNoAlgorithmAreMeasuredAgain) {
  Gemm(*Make(), 8);
  cuda::Tunings damaged = *TuningsOfDevice();
  std::string text = tunings_.Print();
  const size_t at = text.find("algorithm ") + 10;
  text.replace(at, 16, "00000000000000ff");
  ASSERT_TRUE(damaged.Parse(text).ok());
  const auto products =
      *MakeCublasLtProducts({.workspace = workspace_, .tunings = &damaged, .pinned_tokens = 8});
  Gemm(*products, 8);
  EXPECT_STREQ(products->error(), "");
  EXPECT_EQ(damaged.Print(), tunings_.Print());
}

TEST_F(CublasLtTest, NothingIsMeasuredDuringCaptureAndTheGuessIsNotStored) {
  fake_.capturing = true;
  const auto products = Make();
  Gemm(*products, 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(1, 1)));
  // It stays: another choice would change bits within a run.
  fake_.capturing = false;
  Gemm(*products, 3);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(1, 2)));
  EXPECT_THAT(tunings_.Print(), HasSubstr("end 0"));
}

TEST_F(CublasLtTest, WithoutMemoryToMeasureInTheFirstProposalServes) {
  fake_.out_of_memory = true;
  const auto products = Make();
  Gemm(*products, 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(1, 1)));
  EXPECT_STREQ(products->error(), "");

  // With memory it would be another; a run that resumes takes the stored one.
  const std::string stored = tunings_.Print();
  fake_.out_of_memory = false;
  tunings_ = *TuningsOfDevice();
  Gemm(*Make(), 8);
  EXPECT_GT(Launched(3), 1) << "not measured";
  tunings_ = *TuningsOfDevice();
  fake_.launches.clear();
  ASSERT_TRUE(tunings_.Parse(stored).ok()) << stored;
  Gemm(*Make(), 8);
  EXPECT_THAT(fake_.launches, ElementsAre(Pair(1, 1)));
}

// A collective before it may wait for a peer that is gone.
TEST_F(CublasLtTest, MeasuringDoesNotWaitForTheStreamForEver) {
  fake_.busy = true;
  const auto products = *MakeCublasLtProducts({.workspace = workspace_,
                                               .tunings = &tunings_,
                                               .pinned_tokens = 8,
                                               .patience = std::chrono::milliseconds(0)});
  Gemm(*products, 8);
  EXPECT_THAT(products->error(), AllOf(HasSubstr("product of m 16 n 8 k 8"),
                                       HasSubstr("what is on its stream did not end within 0 ms")));
  EXPECT_THAT(fake_.launches, testing::IsEmpty());
}

TEST_F(CublasLtTest, APinnedAlgorithmThatCannotRunIsAnErrorNotAnotherOne) {
  fake_.choices = {{.microseconds = 1, .most_tokens = 8}, {.microseconds = 2}};
  const auto products = Make();
  Gemm(*products, 4);
  Gemm(*products, 9);
  EXPECT_THAT(products->error(),
              AllOf(HasSubstr("product of m 16 n 9 k 8 in bf16"),
                    HasSubstr("pinned algorithm cannot run this number of tokens")));
}

TEST_F(CublasLtTest, OnlyAlgorithmsThatRunTheFirstShapeAreConsidered) {
  fake_.choices = {{.microseconds = 1, .most_tokens = 8}, {.microseconds = 2}};
  const auto products = Make();
  Gemm(*products, 9);
  EXPECT_STREQ(products->error(), "");
  EXPECT_EQ(Launched(0), 0);
}

TEST_F(CublasLtTest, FailuresNameTheProductAndTheCall) {
  fake_.choices = {{.runs = false}};
  const auto broken = Make(true, /*tune=*/false);
  Gemm(*broken, 8);
  EXPECT_THAT(broken->error(), AllOf(HasSubstr("product of m 16 n 8 k 8 in bf16, aligned to 16"),
                                     HasSubstr("cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED")));
  tunings_ = *TuningsOfDevice();
  const auto timed = Make();
  Gemm(*timed, 8);
  EXPECT_THAT(timed->error(), HasSubstr("no algorithm that cuBLASLt proposes runs"));
  fake_.choices.clear();
  const auto none = Make();
  Gemm(*none, 8);
  EXPECT_THAT(none->error(), HasSubstr("cuBLASLt proposes no algorithm"));
  fake_.no_handle = true;
  const auto refused = MakeCublasLtProducts({.workspace = workspace_, .tunings = &tunings_});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().ToString(),
              HasSubstr("cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED"));
}

TEST_F(CublasLtTest, ProposalsAreAskedForTheAlignmentThatOperandsHave) {
  const auto products = Make();
  Gemm(*products, 8);
  Tensor dy = Tensor(DType::kBF16, 4, 16).Fill(1), w = Tensor(DType::kBF16, 16, 8).Fill(2);
  Tensor dx(DType::kBF16, 4, 4);
  products->GemmDgrad(dy.view(), w.view(), 1, dx.view());
  EXPECT_THAT(fake_.alignments, ElementsAre(16, 2));
}

}  // namespace
}  // namespace stretto
