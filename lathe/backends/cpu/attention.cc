#include "lathe/backends/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lathe/core/ceil_div.h"

namespace lathe::cpu {
namespace {

/// One of three tables by the dtype of the tensors.
const AttentionKernels& pick(DType t, const AttentionKernels& f32, const AttentionKernels& bf16,
                             const AttentionKernels& f16) {
  return t == DType::bf16 ? bf16 : t == DType::f16 ? f16 : f32;
}

/// How many queries of a sequence one thread computes.  Usually all; in a sequence with more tokens than a
/// block has keys, as many as a block has keys.  With a narrower window, as many queries as see one block at
/// most.
int64_t queries_of_task(int64_t longest, const Attention& a) {
  constexpr int64_t kBlock = 512, kStrip = 64;
  if (longest <= kBlock) return kBlock;
  const int64_t sharing = (kBlock - 32 - (a.causal ? 1 : 2) * a.window) / kStrip * kStrip;
  return a.window > 0 && sharing >= kBlock / 4 ? sharing : kBlock;
}

/// f(sequence, head, first query, workspace) for every one of `heads` heads of every sequence, `queries` at a
/// time, dealt to the threads.
template <typename F>
void for_tasks(ThreadPool& pool, const Attention& a, const AttentionKernels& kernels, int64_t heads,
               int64_t longest, int64_t queries, void* workspace, int64_t floats, F f) {
  const int64_t tasks = std::max<int64_t>(1, ceil_div(longest, queries));
  pool.deal(a.sequences * heads * tasks);
  pool.run([&](int part, int) {
    float* mine = static_cast<float*>(workspace) + part * floats;
    if (kernels.begin != nullptr) kernels.begin();
    for (long task; (task = pool.next_item(part)) >= 0;) {
      const int64_t head = task / tasks, b = head / heads, first = task % tasks * queries;
      if (a.cu[b + 1] - a.cu[b] > first) f(b, head % heads, first, mine);
    }
    if (kernels.end != nullptr) kernels.end();
  });
}

std::byte* shift(void* x, int64_t elements, DType t) {
  return static_cast<std::byte*>(x) + static_cast<size_t>(elements) * size_of(t);
}
const std::byte* shift(const void* x, int64_t elements, DType t) {
  return static_cast<const std::byte*>(x) + static_cast<size_t>(elements) * size_of(t);
}

int64_t stride(int64_t given, const Attention& a) { return given == 0 ? a.heads * a.width : given; }
int64_t kv_heads_of(const Attention& a) { return a.kv_heads == 0 ? a.heads : a.kv_heads; }
int64_t group_of(const Attention& a) { return a.heads / kv_heads_of(a); }

/// A task without its tensors, of `group` heads of q from `head` on.
AttentionTask task_of(const Attention& a, int64_t b, int64_t head, int64_t group, int64_t first,
                      int64_t queries, float* workspace) {
  AttentionTask t{};
  t.group = group;
  t.lse_stride = a.tokens;
  t.length = a.cu[b + 1] - a.cu[b];
  t.first = first;
  t.count = std::min(queries, t.length - first);
  t.width = a.width;
  t.qkv_stride = stride(a.qkv_stride, a);
  t.out_stride = stride(a.out_stride, a);
  // the next heads, or the first ones of the next sequence
  const bool last = head + group == a.heads;
  const int64_t tokens = last ? t.length : 0, next = last ? 0 : head + group, served = group_of(a);
  t.q_next = tokens * t.qkv_stride + (next - head) * t.width;
  t.kv_next = tokens * t.qkv_stride + (next / served - head / served) * t.width;
  t.out_next = tokens * t.out_stride + (next - head) * t.width;
  t.scale = a.scale == 0 ? static_cast<float>(1 / std::sqrt(static_cast<double>(a.width))) : a.scale;
  t.before = a.window == 0 ? t.length : a.window;
  t.after = a.causal ? 0 : t.before;
  t.head = static_cast<uint32_t>(head);
  t.dropout = a.dropout;
  t.results_are_cold = a.results_are_cold;
  if (a.dropout.threshold > 0) t.sample = static_cast<uint32_t>(a.sample_ids[b]);
  t.workspace = workspace;
  return t;
}

int64_t longest(const Attention& a) {
  int64_t length = 0;
  for (int64_t b = 0; b < a.sequences; ++b) length = std::max<int64_t>(length, a.cu[b + 1] - a.cu[b]);
  return length;
}

/// Zeros `heads` heads of the rows of tokens that belong to no sequence.
void clear_rest(const Attention& a, int64_t heads, void* x, int64_t token_stride) {
  for (int64_t n = a.cu[a.sequences]; n < a.tokens; ++n)
    std::memset(shift(x, n * token_stride, a.t), 0, static_cast<size_t>(heads * a.width) * size_of(a.t));
}

}  // namespace

const AttentionKernels& attention_kernels(Isa isa, DType t) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
    case Isa::kAvx2Vnni:
      return pick(t, kAttentionF32Avx2, kAttentionBf16Avx2, kAttentionF16Avx2);
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      return pick(t, kAttentionF32Avx512, kAttentionBf16Avx512, kAttentionF16Avx512);
    case Isa::kAvx512Bf16:
      return pick(t, kAttentionF32Avx512, kAttentionBf16Avx512Bf16, kAttentionF16Avx512);
    case Isa::kAmx:
      return pick(t, kAttentionF32Avx512, kAttentionBf16Amx, kAttentionF16Avx512);
#elif defined(__aarch64__)
    case Isa::kNeon:
    case Isa::kNeonDot:
    case Isa::kNeonBf16:
      return pick(t, kAttentionF32Neon, kAttentionBf16Neon, kAttentionF16Neon);
#endif
    default:
      return pick(t, kAttentionF32Portable, kAttentionBf16Portable, kAttentionF16Portable);
  }
}

size_t attention_workspace_bytes(Isa isa, DType t, int64_t longest, int64_t width, int threads) {
  return static_cast<size_t>(threads * attention_kernels(isa, t).forward_workspace(longest, width)) *
         sizeof(float);
}
size_t attention_bwd_workspace_bytes(Isa isa, DType t, int64_t longest, int64_t width, int64_t group,
                                     int threads) {
  return static_cast<size_t>(threads * attention_kernels(isa, t).backward_workspace(longest, width, group)) *
         sizeof(float);
}

void attention(ThreadPool& pool, Isa isa, const Attention& a, const void* q, const void* k, const void* v,
               void* out, float* lse, void* workspace) {
  const AttentionKernels& kernels = attention_kernels(isa, a.t);
  const int64_t most = longest(a), queries = queries_of_task(most, a);
  const int64_t floats = kernels.forward_workspace(most, a.width);
  const auto compute = [&](int64_t b, int64_t head, int64_t first, float* mine) {
    AttentionTask t = task_of(a, b, head, 1, first, queries, mine);
    const int64_t token = a.cu[b] * t.qkv_stride, kv = token + head / group_of(a) * a.width;
    t.q = shift(q, token + head * a.width, a.t);
    t.k = shift(k, kv, a.t);
    t.v = shift(v, kv, a.t);
    t.y = shift(out, a.cu[b] * t.out_stride + head * a.width, a.t);
    t.new_lse = lse + head * a.tokens + a.cu[b];
    kernels.forward(&t);
  };
  for_tasks(pool, a, kernels, a.heads, most, queries, workspace, floats, compute);
  clear_rest(a, a.heads, out, stride(a.out_stride, a));
  for (int64_t h = 0; h < a.heads; ++h)
    std::fill(lse + h * a.tokens + a.cu[a.sequences], lse + (h + 1) * a.tokens, 0.f);
}

void attention_bwd(ThreadPool& pool, Isa isa, const Attention& a, const void* dout, const void* q,
                   const void* k, const void* v, const void* out, const float* lse, void* dq, void* dk,
                   void* dv, void* workspace) {
  const AttentionKernels& kernels = attention_kernels(isa, a.t);
  const int64_t most = std::max<int64_t>(longest(a), 1), group = group_of(a), kv_heads = kv_heads_of(a);
  const int64_t floats = kernels.backward_workspace(most, a.width, group);
  const auto compute = [&](int64_t b, int64_t kv_head, int64_t, float* mine) {
    const int64_t head = kv_head * group;
    AttentionTask t = task_of(a, b, head, group, 0, most, mine);
    const int64_t token = a.cu[b] * t.qkv_stride, of_q = token + head * a.width;
    const int64_t kv = token + kv_head * a.width, outs = a.cu[b] * t.out_stride + head * a.width;
    t.q = shift(q, of_q, a.t);
    t.k = shift(k, kv, a.t);
    t.v = shift(v, kv, a.t);
    t.out = shift(out, outs, a.t);
    t.dout = shift(dout, outs, a.t);
    t.lse = lse + head * a.tokens + a.cu[b];
    t.dq = shift(dq, of_q, a.t);
    t.dk = shift(dk, kv, a.t);
    t.dv = shift(dv, kv, a.t);
    kernels.backward(&t);
  };
  for_tasks(pool, a, kernels, kv_heads, most, most, workspace, floats, compute);
  clear_rest(a, a.heads, dq, stride(a.qkv_stride, a));
  for (void* x : {dk, dv}) clear_rest(a, kv_heads, x, stride(a.qkv_stride, a));
}

}  // namespace lathe::cpu
