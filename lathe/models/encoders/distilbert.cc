#include "lathe/models/family.h"

namespace lathe {

namespace {

constexpr MaskedLmHead kVocabularyHead{"vocab_projector.bias", "vocab_transform", "vocab_layer_norm",
                                       "vocab_projector",      nullptr,           true};

}  // namespace

// Source: Sanh et al. 2019 (arXiv 1910.01108); transformers' modeling_distilbert.
const Family kDistilBert{
    .model_type = "distilbert",
    .class_prefix = "DistilBert",
    .base = "distilbert",
    .layers = ".transformer.layer.",
    .defaults = {.model_type = "distilbert",
                 .num_hidden_layers = 6,
                 .type_vocab_size = 0,
                 .classifier_dropout = 0.2,
                 .qa_dropout = 0.1},
    .keys = {.hidden_size = "dim",
             .num_hidden_layers = "n_layers",
             .num_attention_heads = "n_heads",
             .intermediate_size = "hidden_dim",
             .type_vocab_size = nullptr,
             .hidden_act = "activation",
             .hidden_dropout_prob = "dropout",
             .attention_probs_dropout_prob = "attention_dropout",
             .layer_norm_eps = nullptr,
             .classifier_dropout = "seq_classif_dropout",
             .qa_dropout = "qa_dropout"},
    .layer = {.query = ".attention.q_lin",
              .key = ".attention.k_lin",
              .value = ".attention.v_lin",
              .attention_output = ".attention.out_lin",
              .attention_norm = ".sa_layer_norm",
              .intermediate = ".ffn.lin1",
              .output = ".ffn.lin2",
              .output_norm = ".output_layer_norm"},
    .own_head_dropout = true,
    .attention_output_dropout = false,
    .classifier = {"pre_classifier", false, false, "relu", "classifier"},
    .choice = {"pre_classifier", false, "relu", ChoiceDropout::kClassifier},
    .masked_lm = &kVocabularyHead,
    .flags = {{"sinusoidal_pos_embds", false}},
};

}  // namespace lathe
