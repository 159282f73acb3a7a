#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lathe::cpu {

/// Instruction sets for which kernels exist, worst first.  Each x86 level includes those before it, except
/// kAvx2Vnni (AVX-VNNI), which processors with AVX-512 may lack.  Each ARM level includes those before it.
enum class Isa {
  kPortable,
  kAvx2,
  kAvx2Vnni,
  kAvx512,
  kAvx512Vnni,
  kAvx512Bf16,
  kAmx,
  kNeon,
  kNeonDot,
  kNeonBf16
};

/// "portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon", "neon_dot",
/// "neon_bf16"
std::string_view name_of(Isa isa);

/// All levels that this machine runs, worst first; never empty.  With kAmx the operating system's kernel has
/// granted the tile registers to this process (arch_prctl ARCH_REQ_XCOMP_PERM).
std::vector<Isa> available_isas();

/// The best available level, or the level that the environment variable LATHE_ISA names.
/// Errors: kUsage if LATHE_ISA names no level or one that this machine does not run (the message lists those
/// it does).
Isa chosen_isa();

}  // namespace lathe::cpu
