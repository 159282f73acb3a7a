#include "lathe/backends/cpu/isa.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "lathe/core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lathe::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kPortable,   Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512,  Isa::kAvx512Vnni,
                        Isa::kAvx512Bf16, Isa::kAmx,  Isa::kNeon,     Isa::kNeonDot, Isa::kNeonBf16};

#if defined(__x86_64__)

bool bit(uint32_t word, int n) { return ((word >> n) & 1) != 0; }

struct CpuId {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;  // all zero where the leaf does not exist
  explicit CpuId(uint32_t leaf, uint32_t subleaf = 0) {
    __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx);
  }
};

// The register states that the operating system saves (XCR0); without OSXSAVE none.
uint64_t saved_states() {
  if (!bit(CpuId(1).ecx, 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux gives the tile registers only to a process that asks for them.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

void add_levels(std::vector<Isa>& levels) {
  // Bits: Intel SDM vol. 2A, CPUID leaves 1 and 7; XCR0: vol. 1, 13.3.
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const uint64_t saved = saved_states();
  const CpuId one(1), seven(7), seven_one(7, 1);
  const bool fma = bit(one.ecx, 12), f16c = bit(one.ecx, 29);
  if ((saved & kYmm) != kYmm || !fma || !f16c || !bit(seven.ebx, 5)) return;
  levels.push_back(Isa::kAvx2);
  if (bit(seven_one.eax, 4)) levels.push_back(Isa::kAvx2Vnni);
  const bool f = bit(seven.ebx, 16), dq = bit(seven.ebx, 17), cd = bit(seven.ebx, 28);
  const bool bw = bit(seven.ebx, 30), vl = bit(seven.ebx, 31);
  if ((saved & kZmm) != kZmm || !f || !dq || !cd || !bw || !vl) return;
  levels.push_back(Isa::kAvx512);
  if (!bit(seven.ecx, 11)) return;
  levels.push_back(Isa::kAvx512Vnni);
  if (!bit(seven_one.eax, 5)) return;
  levels.push_back(Isa::kAvx512Bf16);
  const bool tiles = bit(seven.edx, 24) && bit(seven.edx, 22) && bit(seven.edx, 25);  // with bf16, int8
  if ((saved & kTiles) == kTiles && tiles && ask_for_tiles()) levels.push_back(Isa::kAmx);
}

#elif defined(__aarch64__)

struct Features {
  bool dot = false, bf16 = false;
};
Features features() {
  Features found;
#if defined(__linux__)
  found.dot = (getauxval(AT_HWCAP) & (1ul << 20)) != 0;    // HWCAP_ASIMDDP
  found.bf16 = (getauxval(AT_HWCAP2) & (1ul << 14)) != 0;  // HWCAP2_BF16
#elif defined(__APPLE__)
  const auto has = [](const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
  };
  found.dot = has("hw.optional.arm.FEAT_DotProd");
  found.bf16 = has("hw.optional.arm.FEAT_BF16");
#endif
  return found;
}

void add_levels(std::vector<Isa>& levels) {
  levels.push_back(Isa::kNeon);
  const Features found = features();
  if (!found.dot) return;
  levels.push_back(Isa::kNeonDot);
  if (found.bf16) levels.push_back(Isa::kNeonBf16);
}

#else

void add_levels(std::vector<Isa>&) {}

#endif

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx2Vnni:
      return "avx2_vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
    case Isa::kNeon:
      return "neon";
    case Isa::kNeonDot:
      return "neon_dot";
    case Isa::kNeonBf16:
      return "neon_bf16";
  }
  return "unknown";
}

std::vector<Isa> available_isas() {
  static const std::vector<Isa> levels = [] {
    std::vector<Isa> found{Isa::kPortable};
    add_levels(found);
    return found;
  }();
  return levels;
}

Isa chosen_isa() {
  const std::vector<Isa> levels = available_isas();
  const char* wish = std::getenv("LATHE_ISA");
  if (wish == nullptr || *wish == '\0') return levels.back();
  const auto named = [&](Isa isa) { return name_of(isa) == wish; };
  const auto it = std::find_if(levels.begin(), levels.end(), named);
  if (it != levels.end()) return *it;
  std::string list;
  for (Isa isa : levels) list += (list.empty() ? "" : ", ") + std::string(name_of(isa));
  const bool known = std::any_of(std::begin(kAll), std::end(kAll), named);
  fail(ErrorCode::kUsage, "LATHE_ISA: found '{}', {}; expected one of: {}; or leave it unset for the best",
       wish, known ? "which this machine does not run" : "which is no level", list);
}

}  // namespace lathe::cpu
