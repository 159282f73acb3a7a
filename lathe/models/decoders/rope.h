#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lathe {

/// How far positions turn queries and keys, as "rope_parameters" of config.json (transformers 5) or
/// "rope_theta" with "rope_scaling" (version 4) says it.
struct RopeConfig {
  std::string type = "default";  ///< default, linear, llama3 or yarn
  double theta = 10000;
  double factor = 1;                             ///< by which positions are stretched
  double original_positions = 0;                 ///< of the model before it was stretched: llama3, yarn
  double low_factor = 1, high_factor = 4;        ///< llama3
  double beta_fast = 32, beta_slow = 1;          ///< yarn
  double attention_factor = 0;                   ///< yarn; 0: by factor and mscale
  double mscale = 0, mscale_all_dimensions = 0;  ///< yarn; 0: none
  bool truncated = true;                         ///< yarn: the borders of its ramp are whole dimensions
  bool operator==(const RopeConfig&) const = default;
};

/// Angles of a position, by pairs of columns, and what cosines and sines are multiplied by.
struct RopeTable {
  std::vector<float> frequencies;  ///< [width / 2] radians per position
  double attention_factor = 1;
};

/// width: columns of a head that turn, even.  Values are those of transformers' ROPE_INIT_FUNCTIONS in f32.
/// Source: Su et al. 2021 (arXiv 2104.09864); Llama 3.1's and YaRN's (arXiv 2309.00071) scaling as
/// transformers has them.
RopeTable rope_table(const RopeConfig& rope, int64_t width);

/// Reads what config.json says.  layer_type: the key within "rope_parameters" where each type of layer has
/// its own ("full_attention"), empty: there is one for all.  theta: if the file has none.  positions:
/// "max_position_embeddings", from which factor and original_positions follow where the file leaves them out.
/// Errors: kUnsupported for another type, by its name; kInvalidData for values that no model has.
RopeConfig parse_rope(const nlohmann::json& json, const std::string& layer_type, double theta,
                      int64_t positions, const std::string& file);
/// The object that parse_rope reads as this.
nlohmann::json rope_to_write(const RopeConfig& rope);

}  // namespace lathe
