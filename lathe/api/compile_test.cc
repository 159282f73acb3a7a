#include "lathe/api/compile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/backends/register.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"
#include "lathe/program/op.h"

namespace lathe {
namespace {

constexpr Shape::value_type kRows = 4, kIn = 7;

struct SmallModel : nn::Module {
  nn::Linear fc1{*this, "fc1", kIn, 5};
  nn::Linear fc2{*this, "fc2", 5, 3};
  Value loss(Value x) const { return mean(fc2(relu(fc1(x)))); }
};

std::vector<float> input() {
  std::vector<float> x(kRows * kIn);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 4;
  return x;
}

Compiled small_step(Backend& device, SmallModel& model, const CompileOptions& options) {
  return compile(
      device, model, [&](Value x) { return model.loss(x); }, {DType::f32, {kRows, kIn}}, options);
}

/// Sums of at most 7 products of numbers below 2: a few roundings of 2^-24 each.
constexpr float kTolerance = 1e-6f;

void expect_near(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_GE(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], kTolerance) << i;
}

class OnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const DeviceStatus& device : devices())
      if (device.kind == GetParam() && device.available) return;
    GTEST_SKIP() << GetParam() << " is not here";
  }
};

// Wanted values: torch 2.15, torch.manual_seed(3); Sequential(Linear(7, 5), ReLU(), Linear(5, 3)), the same
// input, mean().backward().
TEST_P(OnDevice, ParametersLossAndGradientsArePyTorchs) {
  const auto device = open_device(GetParam(), {1});
  SmallModel model;
  Compiled step = small_step(*device, model, {.seed = 3});
  expect_near(step.parameter("fc1.weight"), {-0.374741554f, -0.298161536f, -0.161887869f, -0.357588530f,
                                             -0.021457527f, -0.332520813f, 0.205511257f});
  expect_near(step.parameter("fc1.bias"),
              {-0.185990721f, -0.099309452f, -0.374695510f, -0.176958263f, 0.007271144f});
  EXPECT_THROW(step.run(), Error);   // on nothing
  for (int run = 0; run < 6; ++run)  // more than Executable::kRing
    EXPECT_NEAR(run % 2 == 0 ? step.run(input()) : step.run(), 0.16696345806121826f, kTolerance);
  expect_near(step.gradient("fc1.weight"),
              {-0.024881700f, -0.012440849f, 0, 0.012440850f, 0.024881698f, -0.008293899f, 0.004146950f});
  expect_near(step.gradient("fc1.bias"),
              {0.033175599f, -0.091743141f, -0.018487861f, 0.003480422f, 0.309970975f});
  expect_near(step.gradient("fc2.weight"),
              {0.027584380f, 0.025327662f, 0.045291476f, 0.023258841f, 0.082543477f});
  expect_near(step.gradient("fc2.bias"), {1 / 3.0f, 1 / 3.0f, 1 / 3.0f});
}

TEST_P(OnDevice, ForwardAloneHasTheSameLossAndNoGradients) {
  const auto device = open_device(GetParam(), {1});
  SmallModel model;
  Compiled step = small_step(*device, model, {.backward = false, .seed = 3});
  EXPECT_NEAR(step.run(input()), 0.16696345806121826f, kTolerance);
  EXPECT_THROW(step.gradient("fc1.weight"), Error);
}

INSTANTIATE_TEST_SUITE_P(Compile, OnDevice, testing::Values("ref", "cpu", "mps", "mlx"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST(Compile, ParametersCanBeSetAndFrozen) {
  const auto device = open_device("cpu", {1});
  SmallModel model;
  model.set_trainable("fc1", false);
  Compiled step = small_step(*device, model, {});
  step.set_parameter("fc2.weight", std::vector<float>(15, 0));
  step.set_parameter("fc2.bias", std::vector<float>{1, 2, 6});
  EXPECT_FLOAT_EQ(step.run(input()), 3);
  EXPECT_EQ(step.parameter("fc2.bias"), (std::vector<float>{1, 2, 6}));
  EXPECT_EQ(step.gradient("fc2.bias").size(), 3u);
  EXPECT_THROW(step.gradient("fc1.bias"), Error);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Two layers of the same input, once apart and once as one product.
struct Apart : nn::Module {
  nn::Linear a{*this, "a", kIn, 4}, b{*this, "b", kIn, 4};
};
struct Together : nn::Module {
  nn::Linear both{*this, std::vector<std::string>{"a", "b"}, kIn, 4};
};

TEST(Compile, LayersComputedTogetherKeepTheirNames) {
  const auto device = open_device("cpu", {1});
  const Type type{DType::f32, {kRows, kIn}};
  Apart apart;
  Together together;
  Compiled one = compile(
      *device, apart, [&](Value x) { return mean(add(tanh(apart.a(x)), tanh(apart.b(x)))); }, type);
  Compiled two = compile(
      *device, together, [&](Value x) { return scale(mean(tanh(together.both(x))), 2); }, type);
  EXPECT_FLOAT_EQ(one.run(input()), two.run(input()));
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"}) {
    EXPECT_EQ(one.parameter(name), two.parameter(name)) << name;
    const std::vector<float> g1 = one.gradient(name), g2 = two.gradient(name);
    ASSERT_EQ(g1.size(), g2.size());
    for (size_t i = 0; i < g1.size(); ++i) EXPECT_NEAR(g1[i], g2[i], 1e-7) << name;
  }
  two.set_parameter("b.weight", std::vector<float>(4 * kIn, 0));
  two.set_parameter("b.bias", std::vector<float>(4, 0));
  EXPECT_NE(one.run(input()), two.run(input()));
  EXPECT_EQ(two.parameter("a.weight"), one.parameter("a.weight"));
  together.set_trainable("a", false);
  EXPECT_EQ(message_of([&] {
              compile(
                  *device, together, [&](Value x) { return mean(together.both(x)); }, type);
            }),
            "a.weight and b.weight are computed together: train both or freeze both");
}

TEST(Compile, ParametersStartAsTheyAreDeclared) {
  struct Declared : nn::Module {
    nn::Linear first{*this, "first", kIn, 5};
    int gate = add_parameter({"gate", {5}});
    int weight = add_parameter({"own.weight", {2000}, nn::Init::kNormal}),
        bias = add_parameter({"own.bias", {5}, nn::Init::kOnes});
    nn::Linear zeros{*this, "zeros", 5, 5, {.init = nn::Init::kZeros}};
    nn::Linear wide{*this, "wide", 5, 400, {.stddev = 100}};
    nn::Linear cut{*this, "cut", 5, 400, {.init = nn::Init::kTruncated, .stddev = 0.02}};
    nn::Embedding table{*this, "table", 400, 5, 7};
    int drawn = add_parameter({"drawn", {2000}, nn::Init::kNormal});
    nn::LayerNorm norm{*this, "norm", 5, 1e-5};
  } model;
  const auto device = open_device("cpu", {1});
  const Compiled step = compile(*device, model, [&](Value x) { return mean(model.first(x)); },
                                {DType::f32, {kRows, kIn}}, {.backward = false});
  // largest magnitude and standard deviation
  const auto spread = [&](const char* name) {
    double largest = 0, squares = 0;
    const std::vector<float> values = step.parameter(name);
    for (const double x : values) largest = std::max(largest, std::abs(x)), squares += x * x;
    return std::pair(largest, std::sqrt(squares / static_cast<double>(values.size())));
  };
  for (const char* name : {"gate", "zeros.weight", "zeros.bias", "wide.bias", "cut.bias", "norm.bias"})
    EXPECT_EQ(spread(name).first, 0) << name;
  EXPECT_GT(spread("first.bias").first, 0);
  EXPECT_LE(spread("first.bias").first, 1 / std::sqrt(7.0));
  for (const char* name : {"norm.weight", "own.bias"})
    EXPECT_EQ(step.parameter(name), std::vector<float>(5, 1)) << name;
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(step.parameter("table.weight")[7 * 5 + i], 0) << "padding";
  // The standard deviation of 2,000 drawn numbers is off by 1.6 %; four times that is 6.4 %.
  for (const char* name : {"table.weight", "drawn", "own.weight"})
    EXPECT_NEAR(spread(name).second, 1, 0.064) << name;
  EXPECT_NEAR(spread("wide.weight").second, 100, 6.4);
  EXPECT_LE(spread("cut.weight").first, 0.04f);
  EXPECT_NEAR(spread("cut.weight").second, 0.02 * 0.88, 0.02 * 0.064);  // 0.88: what is cut off at 2 is gone
}

TEST(Compile, WrongUseSaysWhatIsWanted) {
  const auto device = open_device("cpu", {1});
  SmallModel model;
  Compiled step = small_step(*device, model, {});
  EXPECT_EQ(message_of([&] { step.gradient("fc1.bias"); }), "gradient of fc1.bias: call run first");
  EXPECT_EQ(message_of([&] { step.run(std::vector<float>(3)); }), "run: 3 values given, expected f32[4, 7]");
  EXPECT_EQ(message_of([&] { step.parameter("fc9.bias"); }), "the module has no parameter fc9.bias");
  EXPECT_EQ(message_of([&] { step.set_parameter("fc2.bias", std::vector<float>(4)); }),
            "parameter fc2.bias: 4 values given, expected 3");
  const Type type{DType::f32, {kRows, kIn}};
  EXPECT_EQ(message_of([&] {
              compile(
                  *device, model, [&](Value x) { return relu(model.fc1(x)); }, type);
            }),
            "compile: the loss is f32[4, 5], expected f32[1]; take its mean");
  EXPECT_EQ(message_of([&] { model.fc1(Value{}); }), "a layer was called outside of a trace");
  EXPECT_EQ(message_of([&] {
              compile(
                  *device, model, [&](Value) { return mean(model.fc1(Value{})); }, type);
            }),
            "linear: x is not given");
  Program other;
  const Value foreign = other.state("other", {DType::f32, {1}});
  static const OpDef own{.name = "own", .signature = "x[..] -> y[..]:x"};
  EXPECT_EQ(message_of([&] {
              compile(*device, model, [&](Value x) { return mean(emit(own, {model.fc1(x)})[0]); }, type,
                      {.backward = false});
            }),
            "device cpu has no implementation of:\n  own(f32[4, 5])");
  EXPECT_EQ(message_of([&] {
              compile(
                  *device, model, [&](Value) { return foreign; }, type);
            }),
            "output loss: the value belongs to another program");
  EXPECT_EQ(message_of([&] {
              compile(
                  *device, model,
                  [&](Value x) {
                    small_step(*device, model, {});
                    return model.loss(x);
                  },
                  type);
            }),
            "a module is traced while it is being traced");
  EXPECT_EQ(message_of([] {
              nn::Module module;
              nn::Linear(module, std::vector<std::string>{}, kIn, 4);
            }),
            "a layer of no parameters was declared");
  EXPECT_EQ(message_of([&] { small_step(*device, model, {}); }), "");
}

}  // namespace
}  // namespace lathe
