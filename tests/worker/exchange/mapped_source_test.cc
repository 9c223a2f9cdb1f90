// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/mapped_source.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"

namespace stretto {
namespace {

// Products of 16 MB in f32, more than are read at once.
const ModelSpec kWide{.layers = 1,
                      .hidden = 1024,
                      .heads = 2,
                      .ffn_hidden = 4096,
                      .sequence_length = 4,
                      .vocab_size = 128};

// Element i of a tensor, exact in every type.
uint16_t Bf16At(int64_t i) {
  return static_cast<uint16_t>(0x3f80 + i * 7 % 128 + i / 1000 % 32 * 128);
}

// Tensors that are computed when they are read. Keeps the largest range that was asked for.
struct Computed {
  std::unique_ptr<ModelSource> Open(const std::string& dtype) {
    const int64_t item = dtype == "F32" ? 4 : 2;
    std::vector<MappedTensor> tensors;
    for (StoredLayout& layout : HfLayout(kWide)) {
      int64_t total = item;
      for (int64_t extent : layout.shape) total *= extent;
      tensors.push_back(
          {std::move(layout), dtype, [this, item, total](int64_t begin, int64_t count, void* out) {
             EXPECT_TRUE(begin >= 0 && count >= 0 && begin <= total - count);
             largest = std::max(largest, count);
             for (int64_t i = 0; i < count / item; ++i) {
               const uint16_t stored = Bf16At(begin / item + i);
               if (item == 2) {
                 static_cast<uint16_t*>(out)[i] = stored;
               } else {
                 static_cast<float*>(out)[i] = FloatOfBf16(stored);
               }
             }
             return absl::OkStatus();
           }});
    }
    return MakeMappedSource("computed", kWide, std::move(tensors), {});
  }
  int64_t largest = 0;
};

// fc1 and fc2 are transposed, [in, out], in this format.
void ExpectBoxes(const std::string& dtype) {
  Computed computed;
  const auto model = computed.Open(dtype);
  const struct {
    const char* parameter;
    int64_t stored_width;
    std::vector<int64_t> starts, extents;
  } boxes[] = {
      {"layers.0.mlp.fc1.weight", 4096, {0, 0}, {4096, 1024}},
      {"layers.0.mlp.fc1.weight", 4096, {2048, 3}, {2048, 700}},
      {"layers.0.mlp.fc2.weight", 1024, {0, 0}, {1024, 4096}},
      {"layers.0.mlp.fc2.weight", 1024, {5, 2048}, {2, 2048}},
  };
  for (const auto& [parameter, width, starts, extents] : boxes) {
    std::vector<float> values(static_cast<size_t>(extents[0] * extents[1]), -77.0f);
    ASSERT_TRUE(model->Read(parameter, starts, extents, values.data()).ok());
    size_t wrong = 0;
    for (int64_t row = 0; row < extents[0]; ++row) {
      for (int64_t column = 0; column < extents[1]; ++column) {
        const float expected = FloatOfBf16(Bf16At((starts[1] + column) * width + starts[0] + row));
        if (values[static_cast<size_t>(row * extents[1] + column)] != expected) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0u) << parameter;
  }
  EXPECT_LE(computed.largest, 4 << 20) << "bytes at once";
  EXPECT_GE(computed.largest, 1 << 20) << "or the boxes are too small to show it";
}

TEST(MappedSourceTest, WideTransposedProductsAreReadInBlocks) { ExpectBoxes("F32"); }
TEST(MappedSourceTest, WideTransposedProductsAreWidenedInBlocks) { ExpectBoxes("BF16"); }

TEST(MappedSourceTest, LongRangesAreWidenedInBlocks) {
  Computed computed;
  const StoredLayout layout{"w", {4096, 1024}, false, {{"layers.0.mlp.fc1.weight", 0, 4096}}};
  std::vector<MappedTensor> tensors;
  for (StoredLayout& other : HfLayout(kWide)) {
    const bool wide = other.pieces.front().parameter == "layers.0.mlp.fc1.weight";
    tensors.push_back(
        {wide ? layout : other, "BF16", [&computed](int64_t begin, int64_t count, void* out) {
           computed.largest = std::max(computed.largest, count);
           for (int64_t i = 0; i < count / 2; ++i) {
             static_cast<uint16_t*>(out)[i] = Bf16At(begin / 2 + i);
           }
           return absl::OkStatus();
         }});
  }
  const auto model = MakeMappedSource("computed", kWide, std::move(tensors), {});
  std::vector<float> values(4096 * 1024);
  ASSERT_TRUE(model->Read("layers.0.mlp.fc1.weight", {0, 0}, {4096, 1024}, values.data()).ok());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], FloatOfBf16(Bf16At(static_cast<int64_t>(i)))) << i;
  }
  EXPECT_LE(computed.largest, 4 << 20);
}

TEST(MappedSourceTest, ErrorOfTheFileIsPassedOn) {
  std::vector<MappedTensor> tensors;
  for (StoredLayout& layout : HfLayout(kWide)) {
    tensors.push_back({std::move(layout), "F32", [](int64_t, int64_t, void*) {
                         return absl::UnavailableError("read /m: Input/output error");
                       }});
  }
  const auto model = MakeMappedSource("failing", kWide, std::move(tensors), {});
  for (const Parameter& p : ParametersOf(kWide, 1, 0)) {
    std::vector<float> values(static_cast<size_t>(p.count()));
    const absl::Status read = model->Read(p.name, p.starts, p.extents, values.data());
    EXPECT_EQ(read, absl::UnavailableError("read /m: Input/output error")) << p.name;
  }
}

}  // namespace
}  // namespace stretto
