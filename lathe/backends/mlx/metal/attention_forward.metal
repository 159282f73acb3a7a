R"metal(
// A simdgroup takes kSide queries, and holds them and the sums of their values as matrices.
// numbers: scale of the scores, 1 / (1 - p)
threadgroup float tile[(kBlock - 1) * stride + width];  // queries, keys, values, results
threadgroup float scores[kBlock * kBlock];                // [query, key], then what the values are weighted with
threadgroup float rescale[kBlock * kSide];                // of each simdgroup, a diagonal matrix
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
  const uint t = min(first + i / width, length - 1);
  tile[i / width * stride + i % width] = float(qkv[(begin + t) * 3 * columns + column + i % width]);
}
for (uint i = lane; i < kSide * kSide; i += kLanes) rescale[own * kSide + i] = 0;
threadgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_float8x8 q[parts], sum[parts];
LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
  simdgroup_load(q[part], &tile[own * stride + part * kSide], stride);
  sum[part] = make_filled_simdgroup_matrix<float, 8>(0.0f);
}
// A lane takes a run of keys of one query.
const uint line = own + lane / runs, query = first + line, run = lane % runs;
constexpr float kNoScore = -1e30f;  // below every score
float most = kNoScore, total = 0;
for (uint key = from; key < until; key += kBlock) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
    const uint t = min(key + i / width, length - 1);
    tile[i / width * stride + i % width] = float(qkv[((begin + t) * 3 + 1) * columns + column + i % width]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
    simdgroup_float8x8 score = make_filled_simdgroup_matrix<float, 8>(0.0f), k;
    LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
      simdgroup_load(k, &tile[n * stride + part * kSide], stride, 0, true);
      simdgroup_multiply_accumulate(score, q[part], k, score);
    }
    simdgroup_store(score, &scores[own * kBlock + n], kBlock);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
    const uint t = min(key + i / width, length - 1);
    tile[i / width * stride + i % width] = float(qkv[((begin + t) * 3 + 2) * columns + column + i % width]);
  }
  float weight[kRun];
  float highest = most, added = 0;
  for (uint j = 0; j < kRun; ++j) {
    const uint t = key + run * kRun + j;
    const bool seen = t < length && (window == 0 || (t <= query + window && query <= t + window));
    weight[j] = seen ? scores[line * kBlock + run * kRun + j] * numbers[0] : kNoScore;
    highest = max(highest, weight[j]);
  }
  highest = max(highest, simd_shuffle_xor(highest, 1));
  highest = max(highest, simd_shuffle_xor(highest, 2));
  Philox bits = {};
  if (threshold != 0)
    bits = philox(key / kRun + run, head << 16 | query, sample, site, uint(rng[0]), uint(rng[1]));
  for (uint j = 0; j < kRun; ++j) {
    const float p = weight[j] == kNoScore ? 0.0f : exp(weight[j] - highest);
    added += p;
    scores[line * kBlock + run * kRun + j] = drops(bits, j, threshold) ? 0.0f : p * numbers[1];
  }
  added += simd_shuffle_xor(added, 1);
  added += simd_shuffle_xor(added, 2);
  const float shrink = exp(most - highest);
  total = total * shrink + added;
  most = highest;
  if (run == 0) rescale[line * kSide + line % kSide] = shrink;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 diagonal, p, v;
  simdgroup_load(diagonal, &rescale[own * kSide], kSide);
  LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
    simdgroup_multiply(sum[part], diagonal, sum[part]);
    LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
      simdgroup_load(p, &scores[own * kBlock + n], kBlock);
      simdgroup_load(v, &tile[n * stride + part * kSide], stride);
      simdgroup_multiply_accumulate(sum[part], p, v, sum[part]);
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (run == 0) {
  if (query < length) lse[head * tokens + begin + query] = row < rows ? most + log(total) : 0.0f;
  rescale[line * kSide + line % kSide] = total == 0 ? 0.0f : 1.0f / total;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_float8x8 diagonal;
simdgroup_load(diagonal, &rescale[own * kSide], kSide);
LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
  simdgroup_multiply(sum[part], diagonal, sum[part]);
  simdgroup_store(sum[part], &tile[own * stride + part * kSide], stride);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads)
  if (first + i / width < length)
    y[(begin + first + i / width) * columns + column + i % width] =
        T(tile[i / width * stride + i % width]);
)metal"
