R"metal(
// A thread takes a column of both.  words: parts, columns
const uint c = thread_position_in_grid.x, cols = words[1];
if (c < cols) {
  float of_gamma = 0, of_beta = 0;
  for (uint part = 0; part < words[0]; ++part) {
    of_gamma += gamma_parts[part * cols + c];
    of_beta += beta_parts[part * cols + c];
  }
  dgamma[c] = of_gamma;
  dbeta[c] = of_beta;
}
)metal"
