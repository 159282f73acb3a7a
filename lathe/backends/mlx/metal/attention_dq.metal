R"metal(
// The gradients of the queries, and delta, the sum of dy y over a head, which attention_dkv needs, too.  A
// simdgroup takes kSide queries, and holds them, their dy and the sums of the gradients as matrices.
// numbers: scale of the scores, 1 / (1 - p)
threadgroup float keys[(kBlock - 1) * stride + width];    // also queries, and results
threadgroup float values[(kBlock - 1) * stride + width];  // also dy
threadgroup float scores[kBlock * kBlock];                // [query, key], then their gradients
threadgroup float kept[kBlock * kBlock];                  // gradients of what the values are weighted with
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
  const uint t = min(first + i / width, length - 1), at = (begin + t) * columns + column + i % width;
  keys[i / width * stride + i % width] = float(qkv[(begin + t) * 3 * columns + column + i % width]);
  values[i / width * stride + i % width] = float(dy[at]);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_float8x8 q[parts], d[parts], sum[parts];
LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
  simdgroup_load(q[part], &keys[own * stride + part * kSide], stride);
  simdgroup_load(d[part], &values[own * stride + part * kSide], stride);
  sum[part] = make_filled_simdgroup_matrix<float, 8>(0.0f);
}
// A lane takes a run of keys of one query.
const uint line = own + lane / runs, query = first + line, run = lane % runs;
const bool there = query < length;
float product = 0;
for (uint c = run; c < width; c += runs)
  if (there) product += values[line * stride + c] * float(y[(begin + query) * columns + column + c]);
product += simd_shuffle_xor(product, 1);
product += simd_shuffle_xor(product, 2);
if (there && run == 0) delta[head * tokens + begin + query] = product;
const float log_sum = there ? lse[head * tokens + begin + query] : 0.0f;
for (uint key = from; key < until; key += kBlock) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
    const uint t = min(key + i / width, length - 1), at = ((begin + t) * 3 + 1) * columns + column + i % width;
    keys[i / width * stride + i % width] = float(qkv[at]);
    values[i / width * stride + i % width] = float(qkv[at + columns]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
    simdgroup_float8x8 score = make_filled_simdgroup_matrix<float, 8>(0.0f), dp = score, other;
    LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
      simdgroup_load(other, &keys[n * stride + part * kSide], stride, 0, true);
      simdgroup_multiply_accumulate(score, q[part], other, score);
      simdgroup_load(other, &values[n * stride + part * kSide], stride, 0, true);
      simdgroup_multiply_accumulate(dp, d[part], other, dp);
    }
    simdgroup_store(score, &scores[own * kBlock + n], kBlock);
    simdgroup_store(dp, &kept[own * kBlock + n], kBlock);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Philox bits = {};
  if (threshold != 0)
    bits = philox(key / kRun + run, head << 16 | query, sample, site, uint(rng[0]), uint(rng[1]));
  for (uint j = 0; j < kRun; ++j) {
    const uint t = key + run * kRun + j, at = line * kBlock + run * kRun + j;
    const bool seen = there && t < length && (window == 0 || (t <= query + window && query <= t + window));
    const float p = seen ? exp(scores[at] * numbers[0] - log_sum) : 0.0f;
    const float dp = drops(bits, j, threshold) ? 0.0f : kept[at] * numbers[1];
    scores[at] = p * (dp - product) * numbers[0];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 ds, k;
  LATHE_UNROLL for (uint part = 0; part < parts; ++part)
    LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
      simdgroup_load(ds, &scores[own * kBlock + n], kBlock);
      simdgroup_load(k, &keys[n * stride + part * kSide], stride);
      simdgroup_multiply_accumulate(sum[part], ds, k, sum[part]);
    }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
LATHE_UNROLL for (uint part = 0; part < parts; ++part)
  simdgroup_store(sum[part], &keys[own * stride + part * kSide], stride);
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads)
  if (first + i / width < length)
    dq[(begin + first + i / width) * columns + column + i % width] =
        T(keys[i / width * stride + i % width]);
)metal"
