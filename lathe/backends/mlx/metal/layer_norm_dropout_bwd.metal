R"metal(
// The simdgroups of all threadgroups take rows in turn.  A lane adds up its columns of dgamma and dbeta over
// the rows of its simdgroup; then those of a threadgroup are added up, one after another.  sum_parts adds
// the threadgroups.
// words: rows, columns, site, threshold of dropout, whether there are positions, threadgroups
// numbers: 1 / (1 - p)
const uint rows = words[0], cols = words[1], site = words[2], threshold = words[3];
const uint lane = thread_index_in_simdgroup, group = threadgroup_position_in_grid.x;
threadgroup float gamma_of_group[K * kLanes * kRun];
threadgroup float beta_of_group[K * kLanes * kRun];
float dgamma[K * kRun], dbeta[K * kRun];
for (uint i = 0; i < uint(K) * kRun; ++i) {
  dgamma[i] = 0;
  dbeta[i] = 0;
}
for (uint row = group * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup; row < rows;
     row += words[5] * simdgroups_per_threadgroup) {
  const uint first = row * cols, sample = uint(sample_ids[row]);
  const uint position = words[4] != 0 ? uint(positions[row]) : 0u;
  const float centre = mean[row], inverse = rstd[row];
  float normal[K * kRun], g[K * kRun];
  float plain = 0, skewed = 0;
  for (uint k = 0; k < uint(K); ++k)
    for (uint j = 0; j < kRun; ++j) {
      const uint c = (k * kLanes + lane) * kRun + j, i = k * kRun + j;
      if (c < cols) {
        const float d = float(dy[first + c]);
        normal[i] = (float(x[first + c]) - centre) * inverse;
        g[i] = d * gamma[c];
        plain += g[i];
        skewed += g[i] * normal[i];
        dgamma[i] += d * normal[i];
        dbeta[i] += d;
      }
    }
  plain = simd_sum(plain) / float(cols);
  skewed = simd_sum(skewed) / float(cols);
  for (uint k = 0; k < uint(K); ++k) {
    const uint begin = (k * kLanes + lane) * kRun;
    const Philox bits = philox(begin / kRun, position, sample, site, uint(rng[0]), uint(rng[1]));
    for (uint j = 0; j < kRun; ++j) {
      const uint c = begin + j, i = k * kRun + j;
      if (c < cols) {
        const T d = T(inverse * (g[i] - plain - normal[i] * skewed));
        dx[first + c] = d;
        dd[first + c] = drops(bits, j, threshold) ? T(0.0f) : T(float(d) * numbers[0]);
      }
    }
  }
}
for (uint s = 0; s < simdgroups_per_threadgroup; ++s) {
  if (s == simdgroup_index_in_threadgroup)
    for (uint k = 0; k < uint(K); ++k)
      for (uint j = 0; j < kRun; ++j) {
        const uint c = (k * kLanes + lane) * kRun + j, i = k * kRun + j;
        gamma_of_group[c] = s == 0 ? dgamma[i] : gamma_of_group[c] + dgamma[i];
        beta_of_group[c] = s == 0 ? dbeta[i] : beta_of_group[c] + dbeta[i];
      }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
for (uint c = thread_index_in_threadgroup; c < cols; c += simdgroups_per_threadgroup * kLanes) {
  gamma_parts[group * cols + c] = gamma_of_group[c];
  beta_parts[group * cols + c] = beta_of_group[c];
}
)metal"
