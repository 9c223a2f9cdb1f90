// SPDX-License-Identifier: Apache-2.0

// What only cuBLASLt on a GPU can show of its products.
#include "kernels/cuda/cublaslt_products.h"
#include "tests/kernels/cuda_device.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

class CudaProductsTest : public testing::Test {
 protected:
  CudaDevice& device_ = CudaDevice::Get();  // before any tensor
  cuda::Tunings tunings_ = device_.EmptyTunings();

  std::vector<unsigned char> Product(MatrixProducts& products, Tensor& x, Tensor& w, int64_t rows) {
    Tensor y(DType::kBF16, x.view().rows(), w.view().rows());
    for (int64_t at = 0; at < x.view().rows(); at += rows) {
      const int64_t count = std::min(rows, x.view().rows() - at);
      products.Gemm(x.Rows(at, count), w.view(), {}, y.Rows(at, count));
    }
    device_.Wait();
    EXPECT_STREQ(products.error(), "");
    return y.bytes();
  }
};

TEST_F(CudaProductsTest, MeasuredAndPinnedSlicesGiveTheBitsOfTheWhole) {
  for (const int64_t k : {320, 1024, 4096}) {
    Tensor x = Tensor(DType::kBF16, 2048, k).Fill(1), w = Tensor(DType::kBF16, 512, k).Fill(2);
    const auto products = device_.Products(&tunings_);
    const auto whole = Product(*products, x, w, 2048);
    for (const int64_t rows : {1024, 512, 700, 64, 1}) {
      if (rows == 1 && k > 320) continue;  // two thousand launches are enough once
      EXPECT_EQ(Product(*products, x, w, rows), whole) << "k " << k << ", slices of " << rows;
    }
  }
}

TEST_F(CudaProductsTest, SmLimitsDoNotChangeBits) {
  Tensor x = Tensor(DType::kBF16, 1024, 2048).Fill(1), w = Tensor(DType::kBF16, 2048, 2048).Fill(2);
  Tensor dy = Tensor(DType::kBF16, 1024, 2048).Fill(3);
  const auto products = device_.Products(&tunings_);
  std::vector<unsigned char> forward, wgrad;
  for (const int sms : {0, 130, 100, 20}) {
    products->LimitSms(sms);
    Tensor dw(DType::kF32, 2048, 2048);
    dw.Zero();
    products->GemmWgrad(dy.view(), x.view(), dw.view());
    const auto bits = Product(*products, x, w, 1024);
    if (forward.empty()) {
      forward = bits;
      wgrad = dw.bytes();
    }
    EXPECT_EQ(bits, forward) << sms;
    EXPECT_EQ(dw.bytes(), wgrad) << sms;
  }
}

TEST_F(CudaProductsTest, StoredChoicesGiveTheSameBitsWithoutMeasuring) {
  Tensor x = Tensor(DType::kBF16, 512, 1024).Fill(1), w = Tensor(DType::kBF16, 1024, 1024).Fill(2);
  const auto measured = Product(*device_.Products(&tunings_), x, w, 512);
  const std::string text = tunings_.Print();
  EXPECT_NE(text.find("end 1"), std::string::npos) << text;
  cuda::Tunings stored = device_.EmptyTunings();
  ASSERT_TRUE(stored.Parse(text).ok());
  EXPECT_EQ(Product(*device_.Products(&stored, true, /*tune=*/false), x, w, 512), measured);
  EXPECT_EQ(stored.Print(), text);
}

TEST_F(CudaProductsTest, WordsThatAreNoAlgorithmAreMeasuredAgain) {
  Tensor x = Tensor(DType::kBF16, 512, 1024).Fill(1), w = Tensor(DType::kBF16, 1024, 1024).Fill(2);
  Tensor y(DType::kBF16, 512, 1024);
  const cuda::TuningKey key =
      cuda::Pinned({.product = cuda::ForwardProduct(x.view(), w.view(), {}, y.view()).product},
                   {.tokens = 4096});
  cuda::Algorithm garbage{.microseconds = 1};
  garbage.words.fill(0x123456789abcdef);
  tunings_.Put(key, garbage);
  Product(*device_.Products(&tunings_), x, w, 512);
  EXPECT_NE(*tunings_.Find(key), garbage);
}

TEST_F(CudaProductsTest, WithoutPinningEachShapeHasItsEntry) {
  Tensor x = Tensor(DType::kBF16, 512, 256).Fill(1), w = Tensor(DType::kBF16, 256, 256).Fill(2);
  const auto products = device_.Products(&tunings_, /*pin=*/false);
  Product(*products, x, w, 512);
  Product(*products, x, w, 256);
  EXPECT_NE(tunings_.Print().find("end 2"), std::string::npos) << tunings_.Print();
}

}  // namespace
}  // namespace stretto
