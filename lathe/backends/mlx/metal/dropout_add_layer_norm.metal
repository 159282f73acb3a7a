R"metal(
// A simdgroup takes a row.  A lane holds K runs of its columns, in registers.
// words: rows, columns, site, threshold of dropout, whether there are positions, whether there is beta
// numbers: eps, 1 / (1 - p)
const uint rows = words[0], cols = words[1], site = words[2], threshold = words[3];
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
if (row < rows) {
  const uint first = row * cols, sample = uint(sample_ids[row]);
  const uint position = words[4] != 0 ? uint(positions[row]) : 0u;
  float value[K * kRun];
  float total = 0;
  for (uint k = 0; k < uint(K); ++k) {
    const uint begin = (k * kLanes + lane) * kRun;
    const Philox bits = philox(begin / kRun, position, sample, site, uint(rng[0]), uint(rng[1]));
    for (uint j = 0; j < kRun; ++j) {
      const uint c = begin + j;
      if (c < cols) {
        const float kept = drops(bits, j, threshold) ? 0.0f : float(x[first + c]) * numbers[1];
        const T s = T(kept + float(r[first + c]));
        sum[first + c] = s;
        value[k * kRun + j] = float(s);
        total += float(s);
      }
    }
  }
  const float centre = simd_sum(total) / float(cols);
  float squares = 0;
  for (uint k = 0; k < uint(K); ++k)
    for (uint j = 0; j < kRun; ++j)
      if ((k * kLanes + lane) * kRun + j < cols) {
        const float distance = value[k * kRun + j] - centre;
        squares += distance * distance;
      }
  const float inverse = 1.0f / sqrt(simd_sum(squares) / float(cols) + numbers[0]);
  for (uint k = 0; k < uint(K); ++k)
    for (uint j = 0; j < kRun; ++j) {
      const uint c = (k * kLanes + lane) * kRun + j;
      if (c < cols) {
        const float scaled = (value[k * kRun + j] - centre) * inverse * gamma[c];
        y[first + c] = T(words[5] != 0 ? scaled + beta[c] : scaled);
      }
    }
  if (lane == 0) {
    mean[row] = centre;
    rstd[row] = inverse;
  }
}
)metal"
