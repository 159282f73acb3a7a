#include "lathe/app/check/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

MachineFacts healthy() {
  return {
      .system = "Linux",
      .release = "6.1",
      .machine = "x86_64",
      .cpu_model = "A CPU",
      .cpu_features = {"avx2", "amx_bf16"},
      .levels = CpuLevels{{"portable", "avx2", "amx"}, "amx", true},
      .logical_cpus = 4,
      .cores = 2,
      .threads = 2,
      .memory_total = 16 * kGiB,
      .memory_free = 8 * kGiB,
      .folder = "/work",
      .cache = "/cache",
      .folder_free = 100 * kGiB,
      .cache_free = 100 * kGiB,
      .folder_writable = true,
      .cache_exists = true,
      .cache_writable = true,
      .devices = {{"cuda", false, false, "not built into this binary"}, {"cpu", true, true, "A CPU, amx"}}};
}

std::string bad_lines(const MachineFacts& facts) {
  std::string out;
  for (const auto& line : examine(facts).lines) {
    EXPECT_TRUE(line.starts_with("[GOOD] ") || line.starts_with("[BAD]  ") || line.starts_with("[ -- ] "))
        << line;
    if (line.starts_with("[BAD]")) out += line + "\n";
  }
  return out;
}

bool has_line(const MachineFacts& facts, const std::string& line) {
  const std::vector<std::string> lines = examine(facts).lines;
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST(Doctor, AHealthyMachineHasNothingBad) {
  EXPECT_EQ(bad_lines(healthy()), "");
  EXPECT_EQ(examine(healthy()).exit_code, 0);
  EXPECT_EQ(examine(healthy()).lines[1], "[GOOD] CPU A CPU (avx2 amx_bf16)");
  EXPECT_EQ(examine(healthy()).lines[2], "[GOOD] instruction set amx; available: portable, avx2, amx");
}

TEST(Doctor, WhatAMachineNeedNotHaveIsNotBad) {
  MachineFacts f = healthy();
  EXPECT_TRUE(has_line(f, "[ -- ] device cuda: not built into this binary; --device auto takes another"));
  f.levels->native_bf16 = false;
  f.cpu_quota = 0.5;
  f.memory_free.reset();
  f.folder_free.reset();
  f.transports = {{"processes through mpi", false, false, "is not here; install it"}};
  EXPECT_EQ(bad_lines(f), "");
  EXPECT_TRUE(
      has_line(f,
               "[ -- ] bf16 emulated on the CPU: --bf16 works but gains no speed with --device cpu and amx; "
               "train there without it"));
  EXPECT_TRUE(has_line(f, "[ -- ] processes through mpi: is not here; install it"));
  f.nvidia_gpu = true;  // a GPU that cannot be used
  EXPECT_EQ(bad_lines(f), "[BAD]  device cuda: not built into this binary; --device auto takes another\n");
  f.nvidia_gpu = false;
  f.system = "Darwin", f.machine = "arm64", f.macos = "14.5";
  f.devices.insert(f.devices.begin(), {"mps", false, false, "not built"});
  EXPECT_EQ(bad_lines(f), "[BAD]  device mps: not built; --device auto takes another\n");
}

TEST(Doctor, TellsTheDeviceThatAutoTakes) {
  MachineFacts facts = healthy();
  const auto has = [&](const std::string& line) { return has_line(facts, "[GOOD] device " + line); };
  EXPECT_TRUE(has("cpu: A CPU, amx; --device auto takes it"));
  facts.devices[0] = {"cuda", true, true, "A GPU"};
  EXPECT_TRUE(has("cuda: A GPU; --device auto takes it"));
  EXPECT_TRUE(has("cpu: A CPU, amx"));
}

TEST(Doctor, EveryTroubleHasARemedy) {
  MachineFacts f = healthy();
  f.machine = "riscv64";
  f.memory_free = kGiB;
  f.folder_free = kGiB;
  f.cache_free = kGiB / 2;
  const std::string bad = bad_lines(f);
  for (const auto* part : {"platform Linux 6.1 riscv64", "memory 1.0 GiB free of 16.0 GiB",
                           "--save_total_limit 1", "set HF_HOME"}) {
    EXPECT_NE(bad.find(part), std::string::npos) << part << "\n" << bad;
  }
  EXPECT_EQ(examine(f).exit_code, 0);  // it trains, if slowly
  f.folder_writable = false;
  EXPECT_NE(bad_lines(f).find("/work is not writable: pass an --output_dir that is"), std::string::npos);
  f.folder = "";
  EXPECT_NE(bad_lines(f).find("working folder: it is not there any more: cd to one that is\n"),
            std::string::npos);
  f.cache_writable = false;
  EXPECT_NE(bad_lines(f).find("cache /cache is not writable: to fetch models set HF_HOME"),
            std::string::npos);
  f.cache_exists = false;
  EXPECT_NE(bad_lines(f).find("cache /cache can be neither read nor made: to fetch"), std::string::npos);
}

TEST(Doctor, PartsThatAreOpenedWhenNeededAreNamed) {
  MachineFacts f = healthy();
  f.parts = {{"libcurl", true, true, "models and data can be fetched"},
             {"Parquet", false, false, "is not here; install it"}};
  EXPECT_EQ(examine(f).lines.back(), "[BAD]  Parquet: is not here; install it");
  EXPECT_EQ(examine(f).lines.end()[-2], "[GOOD] libcurl: models and data can be fetched");
  EXPECT_EQ(examine(f).exit_code, 0);
}

TEST(Doctor, AMacTellsWhatItsGpuWants) {
  MachineFacts f = healthy();
  f.system = "Darwin";
  f.machine = "arm64";
  f.macos = "14.5";
  EXPECT_EQ(examine(f).lines[1], "[GOOD] macOS 14.5");
  f.macos = "13.6";
  f.translated = true;
  EXPECT_NE(bad_lines(f).find("macOS 13.6: the device mps needs macOS 14"), std::string::npos)
      << bad_lines(f);
  EXPECT_NE(bad_lines(f).find("Rosetta"), std::string::npos);
}

TEST(Doctor, WhatPreventsTrainingSetsTheExitCode) {
  MachineFacts f = healthy();
  f.levels.reset();
  f.level_error = "LATHE_ISA: found 'mmx', expected avx2";
  EXPECT_NE(bad_lines(f).find("[BAD]  instruction set: LATHE_ISA"), std::string::npos);
  EXPECT_EQ(examine(f).exit_code, 1);
  f = healthy();
  f.devices.pop_back();
  EXPECT_EQ(examine(f).exit_code, 1);
}

TEST(Doctor, ThisMachineCanBeExamined) {
  const MachineFacts f = machine_facts();
  EXPECT_FALSE(f.system.empty());
  ASSERT_TRUE(f.levels) << f.level_error;
  EXPECT_FALSE(f.levels->available.empty());
  EXPECT_GE(f.threads, 1);
  ASSERT_TRUE(f.memory_total && f.memory_free);
  EXPECT_GE(*f.memory_total, *f.memory_free);
  EXPECT_FALSE(f.cache.empty());
  ASSERT_EQ(f.parts.size(), 2u);
  EXPECT_EQ(f.parts[0].kind, "libcurl");
  ASSERT_EQ(f.transports.size(), 2u);
  EXPECT_EQ(f.transports[1].kind, "processes through mpi");
  for (const auto* parts : {&f.parts, &f.transports})
    for (const auto& part : *parts) EXPECT_FALSE(part.detail.empty()) << part.kind;
  EXPECT_EQ(examine(f).exit_code, 0);
}

}  // namespace
}  // namespace lathe
