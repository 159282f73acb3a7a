R"metal(
// The gradients of keys and values, beside those of the queries, which attention_dq has computed.  A simdgroup
// takes kSide keys, and holds them, their values and the sums of both gradients as matrices.
// numbers: scale of the scores, 1 / (1 - p)
threadgroup float queries[(kBlock - 1) * stride + width];  // also keys, and their gradients
threadgroup float given[(kBlock - 1) * stride + width];    // dy; also values, and their gradients
threadgroup float scores[kBlock * kBlock];   // [key, query], then their gradients
threadgroup float kept[kBlock * kBlock];     // what the values are weighted with; before, its gradients
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
  const uint t = min(first + i / width, length - 1), at = ((begin + t) * 3 + 1) * columns + column + i % width;
  queries[i / width * stride + i % width] = float(qkv[at]);
  given[i / width * stride + i % width] = float(qkv[at + columns]);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_float8x8 k[parts], v[parts], dk[parts], dv[parts];
LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
  simdgroup_load(k[part], &queries[own * stride + part * kSide], stride);
  simdgroup_load(v[part], &given[own * stride + part * kSide], stride);
  dk[part] = make_filled_simdgroup_matrix<float, 8>(0.0f);
  dv[part] = make_filled_simdgroup_matrix<float, 8>(0.0f);
}
for (uint block = from; block < until; block += kBlock) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
    const uint t = min(block + i / width, length - 1), at = (begin + t) * columns + column + i % width;
    queries[i / width * stride + i % width] = float(qkv[(begin + t) * 3 * columns + column + i % width]);
    given[i / width * stride + i % width] = float(dy[at]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
    simdgroup_float8x8 score = make_filled_simdgroup_matrix<float, 8>(0.0f), dp = score, other;
    LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
      simdgroup_load(other, &queries[n * stride + part * kSide], stride, 0, true);
      simdgroup_multiply_accumulate(score, k[part], other, score);
      simdgroup_load(other, &given[n * stride + part * kSide], stride, 0, true);
      simdgroup_multiply_accumulate(dp, v[part], other, dp);
    }
    simdgroup_store(score, &scores[own * kBlock + n], kBlock);
    simdgroup_store(dp, &kept[own * kBlock + n], kBlock);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  // A lane takes a query; the keys of the simdgroup are a run.
  const uint query = block + lane;
  const bool there = query < length;
  const float log_sum = there ? lse[head * tokens + begin + query] : 0.0f;
  const float product = there ? delta[head * tokens + begin + query] : 0.0f;
  Philox bits = {};
  if (threshold != 0)
    bits = philox((first + own) / kRun, head << 16 | query, sample, site, uint(rng[0]), uint(rng[1]));
  for (uint j = 0; j < kRun; ++j) {
    const uint t = first + own + j, at = (own + j) * kBlock + lane;
    const bool seen = there && t < length && (window == 0 || (t <= query + window && query <= t + window));
    const float p = seen ? exp(scores[at] * numbers[0] - log_sum) : 0.0f;
    const float mask = drops(bits, j, threshold) ? 0.0f : numbers[1];
    scores[at] = p * (kept[at] * mask - product) * numbers[0];
    kept[at] = p * mask;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 weight, other;
  LATHE_UNROLL for (uint part = 0; part < parts; ++part)
    LATHE_UNROLL for (uint n = 0; n < kBlock; n += kSide) {
      simdgroup_load(weight, &scores[own * kBlock + n], kBlock);
      simdgroup_load(other, &queries[n * stride + part * kSide], stride);
      simdgroup_multiply_accumulate(dk[part], weight, other, dk[part]);
      simdgroup_load(weight, &kept[own * kBlock + n], kBlock);
      simdgroup_load(other, &given[n * stride + part * kSide], stride);
      simdgroup_multiply_accumulate(dv[part], weight, other, dv[part]);
    }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
LATHE_UNROLL for (uint part = 0; part < parts; ++part) {
  simdgroup_store(dk[part], &queries[own * stride + part * kSide], stride);
  simdgroup_store(dv[part], &given[own * stride + part * kSide], stride);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_id; i < kBlock * width; i += kBlockThreads) {
  const uint t = first + i / width, at = (begin + t) * 3 * columns + column + i % width;
  if (t < length) {
    dqkv[at] = dq[(begin + t) * columns + column + i % width];
    dqkv[at + columns] = T(queries[i / width * stride + i % width]);
    dqkv[at + 2 * columns] = T(given[i / width * stride + i % width]);
  }
}
)metal"
