// Packing and storing by vectors, of kernels whose packed elements are f32; edges as gemm_plain.h does them.
// A source of isa/ defines LATHE_ISA_NAMESPACE and includes this.
#pragma once
#include <type_traits>

#include "lathe/backends/cpu/isa/products/gemm_plain.h"
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

template <typename T>
void store_rows(const GemmStore* s) {
  for (int64_t i = 0; i < s->rows; ++i)
    for (int64_t j = 0; j < s->cols; j += kLanes) {
      const int64_t at = i * s->ldc + j;
      Floats value = load(s->acc + i * s->acc_ld + j);
      if (s->bias != nullptr) value += load(s->bias + j);
      if (s->addend != nullptr) value += load(static_cast<const T*>(s->addend) + at);
      store(static_cast<T*>(s->c) + at, value);
    }
}

void store_by_vectors(const GemmStore* s) {
  if (s->cols % kLanes != 0) return gemm_store_plain(s);
  s->c_type == GemmType::kF32    ? store_rows<float>(s)
  : s->c_type == GemmType::kBf16 ? store_rows<Bf16>(s)
                                 : store_rows<F16>(s);
}

/// Rounded to Round.
template <typename Round, typename T>
inline Floats load_as(const T* p) {
  const Floats x = load(p);
  if constexpr (std::is_same_v<Round, T>) return x;
  Round rounded[kLanes];
  store(rounded, x);
  return load(rounded);
}

/// The first `count` of four elements.
inline void store_first(float* to, const float* four, int64_t count) {
  if (count >= 4) {
    memcpy(to, four, 4 * sizeof(float));
    return;
  }
  if (count >= 2) memcpy(to, four, 2 * sizeof(float));
  if (count % 2 == 1) to[count - 1] = four[count - 1];
}

/// Lines of the source become columns of the panel.  Returns how many k are packed.
template <typename T, typename Round>
int64_t pack_lines(const GemmPack* p) {
  int64_t k = 0;
  for (; k + kLanes <= p->k; k += kLanes)
    for (int64_t w = 0; w < p->panel; w += 4) {
      const T* src = static_cast<const T*>(p->src) + w * p->ld + k;
      Uints lines[4] = {};
      LATHE_UNROLL
      for (int i = 0; i < 4; ++i)
        if (w + i < p->panel) lines[i] = bits_as<Uints>(load_as<Round>(src + i * p->ld));
      transpose_blocks(lines);
      float* const dst = static_cast<float*>(p->dst) + k * p->panel + w;
      LATHE_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        float column[kLanes];
        store(column, bits_as<Floats>(lines[i % 4]));
        store_first(dst + i * p->panel, column + i / 4 * 4, p->panel - w);
      }
    }
  return k;
}

/// Lines of the source become rows of the panel, as whole vectors.  What a row writes beyond the panel the
/// next row overwrites; a last row that would write or read too far is left out.  Returns how many k are
/// packed.
template <typename T, typename Round>
int64_t pack_rows(const GemmPack* p) {
  const int64_t beyond = -p->panel & (kLanes - 1);
  const int64_t rows = p->ld < beyond ? 0 : p->k - (beyond + p->panel - 1) / p->panel;
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t w = 0; w < p->panel; w += kLanes)
      store(static_cast<float*>(p->dst) + k * p->panel + w,
            load_as<Round>(static_cast<const T*>(p->src) + k * p->ld + w));
  return rows < 0 ? 0 : rows;
}

void pack_by_vectors(const GemmPack* p) {
  const auto packed = [p](auto element, auto round) {
    using T = decltype(element);
    using Round = decltype(round);
    if (p->width < p->panel) return int64_t{0};
    return p->along_k ? pack_lines<T, Round>(p) : pack_rows<T, Round>(p);
  };
  const int64_t done = p->src_type == GemmType::kBf16  ? packed(Bf16{}, Bf16{})
                       : p->src_type == GemmType::kF16 ? packed(F16{}, F16{})
                       : p->round == GemmType::kBf16   ? packed(float{}, Bf16{})
                       : p->round == GemmType::kF16    ? packed(float{}, F16{})
                                                       : packed(float{}, float{});
  if (done == p->k_padded) return;
  GemmPack rest = *p;
  rest.src = static_cast<const char*>(p->src) + done * (p->along_k ? 1 : p->ld) * gemm_bytes(p->src_type);
  rest.dst = static_cast<float*>(p->dst) + done * p->panel;
  rest.k -= done;
  rest.k_padded -= done;
  gemm_pack_f32(&rest);
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
