// Forward and backward of a small network, what PyTorch writes as
//   loss = fc3(relu(fc2(relu(fc1(x))))).mean(); loss.backward()
// usage: simple_model [device] [iterations]
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace lathe;

struct SimpleModel : nn::Module {
  nn::Linear fc1{*this, "fc1", 1024, 512};
  nn::Linear fc2{*this, "fc2", 512, 256};
  nn::Linear fc3{*this, "fc3", 256, 10};

  Value forward(Value x) const {
    x = relu(fc1(x));
    x = relu(fc2(x));
    return fc3(x);
  }
};

int main(int argc, char** argv) try {
  const auto device = open_device(argc > 1 ? argv[1] : "auto");
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 100;

  SimpleModel model;
  auto loss_of = [&](Value x) { return mean(model.forward(x)); };
  Compiled step = compile(*device, model, loss_of, {DType::f32, {1024, 1024}});

  std::vector<float> input(1024 * 1024);
  TorchGenerator(1).normal(input);  // torch.randn(1024, 1024)

  float loss = step.run(input);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i < iterations; ++i) loss = step.run();  // x stays on the device, as it does in PyTorch
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  std::printf("device %s: %s\n", device->info().kind.c_str(), device->info().name.c_str());
  std::printf("loss %.6f, gradient of fc3.bias[0] %.6f\n", loss, step.gradient("fc3.bias")[0]);
  if (iterations > 1) std::printf("%.3f ms per iteration\n", elapsed.count() / (iterations - 1));
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return exit_code(error.code());
}
