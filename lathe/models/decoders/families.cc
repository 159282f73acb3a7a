#include <utility>

#include "lathe/models/family.h"

namespace lathe {
namespace {

/// Those of all decoders here.
constexpr ConfigKeys kKeys{.type_vocab_size = nullptr,
                           .hidden_dropout_prob = nullptr,
                           .attention_probs_dropout_prob = "attention_dropout",
                           .layer_norm_eps = "rms_norm_eps",
                           .classifier_dropout = nullptr};

/// What a config.json of transformers leaves out is what its class has.
ModelConfig defaults(const char* type, int64_t vocab, int64_t width, int64_t layers, int64_t heads,
                     int64_t mlp, int64_t positions, double eps) {
  return {.model_type = type,
          .vocab_size = vocab,
          .hidden_size = width,
          .num_hidden_layers = layers,
          .num_attention_heads = heads,
          .intermediate_size = mlp,
          .max_position_embeddings = positions,
          .type_vocab_size = 0,
          .pad_token_id = -1,
          .hidden_act = "silu",
          .hidden_dropout_prob = 0,
          .attention_probs_dropout_prob = 0,
          .classifier_dropout = 0,
          .layer_norm_eps = eps};
}

constexpr DecoderFamily kPlain, kWindows{.all_local = true},
    kOfQwen2{.query_biases = true, .windows_by_flag = true},
    kOfQwen3{.head_norms = true, .windows_by_flag = true},
    kOfGemma3{.head_norms = true,
              .norms_after = true,
              .plus_one = true,
              .scales_words = true,
              .writer_prefix = "Gemma3",
              .global_every = 6};

ConfigKeys keys_of_gemma() {
  ConfigKeys keys = kKeys;
  keys.hidden_act = "hidden_activation";
  return keys;
}

ModelConfig defaults_of_gemma() {
  ModelConfig config = defaults("gemma3_text", 262208, 2304, 26, 8, 9216, 131072, 1e-6);
  config.hidden_act = "gelu_pytorch_tanh";
  config.pad_token_id = 0;
  return config;
}

Family decoders(const char* type, const char* class_prefix, ModelConfig config, const ConfigKeys& keys,
                const DecoderFamily& decoder) {
  return {.model_type = type,
          .class_prefix = class_prefix,
          .base = "model",
          .layers = ".layers.",
          .defaults = std::move(config),
          .keys = keys,
          .decoder = &decoder};
}

}  // namespace

// Source: Touvron et al. 2023 (arXiv 2302.13971); transformers' modeling_llama.
const Family kLlama =
    decoders("llama", "Llama", defaults("llama", 32000, 4096, 32, 32, 11008, 2048, 1e-6), kKeys, kPlain);
// Source: Jiang et al. 2023 (arXiv 2310.06825); transformers' modeling_mistral.
const Family kMistral = decoders(
    "mistral", "Mistral", defaults("mistral", 32000, 4096, 32, 32, 14336, 131072, 1e-6), kKeys, kWindows);
// Source: Yang et al. 2024 (arXiv 2407.10671); transformers' modeling_qwen2.
const Family kQwen2 =
    decoders("qwen2", "Qwen2", defaults("qwen2", 151936, 4096, 32, 32, 22016, 32768, 1e-6), kKeys, kOfQwen2);
// Source: Yang et al. 2025 (arXiv 2505.09388); transformers' modeling_qwen3.
const Family kQwen3 =
    decoders("qwen3", "Qwen3", defaults("qwen3", 151936, 4096, 32, 32, 22016, 32768, 1e-6), kKeys, kOfQwen3);
// Source: Gemma Team 2025 (arXiv 2503.19786); transformers' modeling_gemma3.
const Family kGemma3 = decoders("gemma3_text", "Gemma3Text", defaults_of_gemma(), keys_of_gemma(), kOfGemma3);

}  // namespace lathe
