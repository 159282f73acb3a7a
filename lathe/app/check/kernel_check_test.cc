#include "lathe/app/check/kernel_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lathe/backends/register.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/test_folder.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/segment_mean.h"
#include "lathe/program/forwarding_backend_testing.h"

namespace lathe {
namespace {

constexpr int64_t kTokens = 100;

/// The cpu device, one of whose implementations has to prove itself.
class OnTrial : public ForwardingBackend {
 public:
  OnTrial(const OpDef& op, std::string key)
      : ForwardingBackend(open_device("cpu", {1})), op_(op), trial_(*real_->implementations(op).at(0)) {
    trial_.key = std::move(key);
  }
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    std::vector<const Impl*> all = real_->implementations(op);
    if (&op == &op_) all.insert(all.begin(), &trial_);
    return all;
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan& plan, const Bindings& bindings) override {
    Selection real = selection;
    const auto is_call = [this](const Node& node) { return node.op == &op_; };
    if (std::ranges::count_if(program.nodes(), is_call) > 1)
      timed.push_back(selection[0] == &trial_ ? "trial" : "other");
    for (const Impl*& impl : real)
      if (impl == &trial_) impl = real_->implementations(op_)[0];
    for (const Node& node : program.nodes())
      if (spoil && node.op == &op_) return Status(ErrorCode::kInternal, "the compiler does not take it");
    return real_->compile(program, real, plan, bindings);
  }
  bool spoil = false;
  std::vector<std::string> timed;  ///< what was chosen in programs of several calls of the op

 private:
  const OpDef& op_;
  Impl trial_;
};

TEST(KernelCheck, ARightKernelIsMeasuredAndItsVerdictKept) {
  const TestFolder folder;
  const std::string path = folder / "cache/metal_kernels.txt";
  write_cache(path, "right\t1\t2\tof another chip\n");
  OnTrial device(op::dropout_add_layer_norm, "this chip");
  std::vector<std::string> lines;
  check_kernels(
      device, path, [&](const std::string& line) { lines.push_back(line); }, kTokens);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("[GOOD] cpu: own kernel of dropout_add_layer_norm: right; ")) << lines[0];
  const std::string kept = read_cache(path);
  EXPECT_NE(kept.find("\tof another chip\n"), std::string::npos);
  EXPECT_NE(kept.find("\tthis chip\n"), std::string::npos);
  const KernelVerdicts verdicts = KernelVerdicts::parse(kept);
  EXPECT_EQ(verdicts.use("this chip", ""), lines[0].ends_with(": used")) << kept;
}

TEST(KernelCheck, AnOpWithoutPartsIsMeasuredBesideItsOtherImplementation) {
  OnTrial device(op::segment_mean, "this chip");
  std::string fault;
  const Impl& trial = *device.implementations(op::segment_mean).at(0);
  EXPECT_TRUE(try_kernel(device, op::segment_mean, trial, kTokens, &fault).right) << fault;
  EXPECT_EQ(device.timed, (std::vector<std::string>{"other", "trial"}));
}

TEST(KernelCheck, AKernelThatDoesNotRunIsNotUsed) {
  const TestFolder folder;
  const std::string path = folder / "cache/metal_kernels.txt";
  OnTrial device(op::layer_norm_dropout_bwd, "this chip");
  device.spoil = true;
  std::string said;
  check_kernels(
      device, path, [&](const std::string& line) { said = line; }, kTokens);
  EXPECT_TRUE(said.starts_with("[BAD]  cpu: own kernel of layer_norm_dropout_bwd: wrong, and not used: "))
      << said;
  EXPECT_NE(said.find("the compiler does not take it"), std::string::npos) << said;
  EXPECT_FALSE(KernelVerdicts::parse(read_cache(path)).use("this chip", ""));
  EXPECT_NE(read_cache(path).find("wrong\t"), std::string::npos);
}

TEST(KernelCheck, ADeviceWithoutSuchKernelsLeavesNoFile) {
  const TestFolder folder;
  const std::string path = folder / "cache/metal_kernels.txt";
  const auto cpu = open_device("cpu", {1});
  check_kernels(
      *cpu, path, [](const std::string& line) { FAIL() << line; }, kTokens);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace lathe
