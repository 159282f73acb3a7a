#include "lathe/models/family.h"

namespace lathe {
namespace {

constexpr MaskedLmHead kLmHead{"lm_head.bias", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                               "gelu"};
constexpr ClassifierHead kClassifier{"classifier.dense", false, true, "tanh", "classifier.out_proj"};

}  // namespace

// Source: Liu et al. 2019 (arXiv 1907.11692); transformers' modeling_roberta.
const Family kRoberta{
    .model_type = "roberta",
    .class_prefix = "Roberta",
    .base = "roberta",
    .layers = ".encoder.layer.",
    .defaults = {.model_type = "roberta", .vocab_size = 50265, .pad_token_id = 1},
    .positions_after_padding = true,
    .positions_last = true,
    .classifier = kClassifier,
    .choice = {.dense = "roberta.pooler.dense"},
    .masked_lm = &kLmHead,
};

// Source: Martin et al. 2019 (arXiv 1911.03894); transformers' modeling_camembert.
const Family kCamembert{
    .model_type = "camembert",
    .class_prefix = "Camembert",
    .base = "roberta",
    .layers = ".encoder.layer.",
    .defaults = {.model_type = "camembert", .pad_token_id = 1},
    .positions_after_padding = true,
    .positions_last = true,
    .head_first = true,
    .classifier = kClassifier,
    .choice = {.dense = "roberta.pooler.dense"},
    .masked_lm = &kLmHead,
};

// Source: Conneau et al. 2019 (arXiv 1911.02116); transformers' modeling_xlm_roberta.
const Family kXlmRoberta{
    .model_type = "xlm-roberta",
    .class_prefix = "XLMRoberta",
    .base = "roberta",
    .layers = ".encoder.layer.",
    .defaults = {.model_type = "xlm-roberta", .pad_token_id = 1},
    .positions_after_padding = true,
    .positions_last = true,
    .head_first = true,
    .classifier = kClassifier,
    .choice = {.dense = "roberta.pooler.dense"},
    .masked_lm = &kLmHead,
};

}  // namespace lathe
