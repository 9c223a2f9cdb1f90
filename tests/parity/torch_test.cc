// Against PyTorch: files made by make_torch_golden.py (DESIGN section 5).

#include <fstream>
#include <map>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"

namespace stretto::parity {
namespace {

struct Golden {
  ModelSpec model;
  std::vector<double> losses;
  std::vector<std::string> names;
  Tensors gradients;
};

Golden ReadGolden(const std::string& name) {
  const std::string path = std::string(STRETTO_SOURCE_DIR) + "/tests/golden/torch_" + name;
  std::ifstream text(path + ".txt"), data(path + ".gradients.f32", std::ios::binary);
  EXPECT_TRUE(text.good() && data.good()) << path;
  Golden golden;
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind, value;
    size_t elements;
    double loss;
    words >> kind >> value;
    if (kind == "loss" && words >> loss) {
      golden.losses.push_back(loss);
    } else if (kind == "tensor" && words >> elements) {
      golden.names.push_back(value);
      Floats& gradient = golden.gradients.emplace_back(elements);
      data.read(reinterpret_cast<char*>(gradient.data()),
                static_cast<std::streamsize>(elements * sizeof(float)));
      EXPECT_TRUE(data.good()) << value;
    } else {
      fields[kind] = value;
    }
  }
  EXPECT_EQ(data.peek(), std::ifstream::traits_type::eof());
  const auto number = [&](const char* field) { return std::stoi(fields.at(field)); };
  golden.model = {.family = fields.at("family") == "gpt" ? Family::kGpt : Family::kLlama,
                  .layers = number("layers"),
                  .hidden = number("hidden"),
                  .heads = number("heads"),
                  .kv_heads = number("kv_heads"),
                  .ffn_hidden = number("ffn_hidden"),
                  .sequence_length = number("sequence_length"),
                  .vocab_size = number("vocab_size"),
                  .rotary_base = number("rotary_base")};
  return golden;
}

struct Case {
  std::string golden;
  Layout layout;  // its family is the golden model's
};

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  return info.param.golden + "_" + NameOfLayout({info.param.layout, info.index});
}
void PrintTo(const Case& c, std::ostream* out) { *out << NameOfCase({c, 0}); }

std::vector<Case> Cases() {
  const Layout hybrid = {.schedule = "domino_hybrid",
                         .slices = {1, 3},
                         .splits = 2,
                         .recompute = Recompute::kSelective};
  std::vector<Case> cases;
  for (const char* golden : {"gpt", "gpt_odd", "llama", "llama_grouped"}) {
    cases.push_back({golden, {.tp_size = 1}});
    cases.push_back({golden, {.schedule = "domino_row", .slices = {2, 2}}});
    cases.push_back({golden, hybrid});
  }
  cases.push_back({"gpt", {.tp_size = 2}});
  cases.push_back({"gpt", {.schedule = "domino_row", .tp_size = 4, .slices = {1, 2, 1}}});
  cases.push_back(
      {"llama", {.schedule = "megatron_async", .tp_size = 4, .sequence_parallel = true}});
  cases.push_back({"llama_grouped",
                   {.schedule = "domino_row",
                    .tp_size = 4,
                    .slices = {1, 2, 1},
                    .sequence_parallel = true,
                    .recompute = Recompute::kFull}});
  for (Case& c : cases) {
    if (c.golden.starts_with("llama")) c.layout.family = Family::kLlama;
  }
  return cases;
}

class TorchTest : public ::testing::TestWithParam<Case> {};

TEST_P(TorchTest, TenLossesAndEveryGradientAgree) {
  const Golden golden = ReadGolden(GetParam().golden);
  EngineSpec spec = SpecOf(GetParam().layout);
  ASSERT_EQ(spec.model.family, golden.model.family);
  spec.model = golden.model;
  const Result result =
      Train(spec, {.steps = 10, .clip_norm = 0.25, .gradients_of_step = 0, .same_batch = true});
  EXPECT_GT(result.steps[0].gradient_norm, 0.25);  // clipping is at work
  ASSERT_EQ(golden.losses.size(), 10u);
  for (size_t step = 0; step < 10; ++step) {
    EXPECT_NEAR(result.steps[step].loss, golden.losses[step], kF32LossBound * golden.losses[step])
        << "step " << step;
  }
  const std::vector<Parameter> parameters = ParametersOf(spec.model, 1, 0);
  ASSERT_EQ(golden.names.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_EQ(golden.names[i], parameters[i].name);
  ExpectGradientsWithin(kF32GradientBound, spec.model, result.gradients, golden.gradients);
}

INSTANTIATE_TEST_SUITE_P(Cases, TorchTest, ::testing::ValuesIn(Cases()), NameOfCase);

}  // namespace
}  // namespace stretto::parity
