// Against PyTorch: files made by make_torch_golden.py (DESIGN section 5).

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/parity/harness.h"

namespace stretto::parity {
namespace {

struct Golden {
  std::vector<double> losses;
  std::vector<std::string> names;
  Tensors gradients;
};

Golden ReadGolden() {
  const std::string folder = std::string(STRETTO_SOURCE_DIR) + "/tests/golden/torch_gpt";
  std::ifstream text(folder + ".txt"), data(folder + ".gradients.f32", std::ios::binary);
  EXPECT_TRUE(text.good() && data.good()) << folder;
  Golden golden;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind, name;
    size_t elements;
    double loss;
    words >> kind >> name;
    if (kind == "loss" && words >> loss) golden.losses.push_back(loss);
    if (kind == "tensor" && words >> elements) {
      golden.names.push_back(name);
      Floats& gradient = golden.gradients.emplace_back(elements);
      data.read(reinterpret_cast<char*>(gradient.data()),
                static_cast<std::streamsize>(elements * sizeof(float)));
      EXPECT_TRUE(data.good()) << name;
    }
  }
  EXPECT_EQ(data.peek(), std::ifstream::traits_type::eof());
  return golden;
}

// The model of make_torch_golden.py.
EngineSpec TorchSpec(const Layout& layout) {
  EngineSpec spec = SpecOf(layout);
  spec.model = {.layers = 2,
                .hidden = 32,
                .heads = 4,
                .ffn_hidden = 128,
                .sequence_length = 16,
                .vocab_size = 61};
  return spec;
}

class TorchTest : public ::testing::TestWithParam<Layout> {};

TEST_P(TorchTest, TenLossesAndEveryGradientAgree) {
  const Golden golden = ReadGolden();
  const EngineSpec spec = TorchSpec(GetParam());
  const Result result =
      Train(spec, {.steps = 10, .clip_norm = 0.25, .gradients_of_step = 0, .same_batch = true});
  EXPECT_GT(result.steps[0].gradient_norm, 0.25);  // clipping is at work
  ASSERT_EQ(golden.losses.size(), 10u);
  for (size_t step = 0; step < 10; ++step) {
    EXPECT_NEAR(result.steps[step].loss, golden.losses[step], 1e-5 * golden.losses[step])
        << "step " << step;
  }
  const std::vector<Parameter> parameters = ParametersOf(spec.model, 1, 0);
  ASSERT_EQ(golden.gradients.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(golden.names[i], parameters[i].name);
    ASSERT_EQ(golden.gradients[i].size(), result.gradients[i].size()) << golden.names[i];
    EXPECT_LE(Distance(result.gradients[i], golden.gradients[i]),
              1e-4 * ScaleOf(golden.gradients[i], golden.gradients))
        << golden.names[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TorchTest,
    ::testing::Values(Layout{.tp_size = 1}, Layout{.tp_size = 2},
                      Layout{.schedule = "domino_row", .tp_size = 2, .slices = {2, 2}},
                      Layout{.schedule = "domino_row", .tp_size = 4, .slices = {1, 2, 1}}),
    NameOfLayout);

}  // namespace
}  // namespace stretto::parity
