#include "lathe/models/family.h"

namespace lathe {
namespace {

constexpr MaskedLmHead kMaskedLm{"cls.predictions.bias", "cls.predictions.transform.dense",
                                 "cls.predictions.transform.LayerNorm", "cls.predictions.decoder"};

}  // namespace

// Source: Devlin et al. 2018 (arXiv 1810.04805); transformers' modeling_bert for names and dropout.
const Family kBert{
    .model_type = "bert",
    .class_prefix = "Bert",
    .base = "bert",
    .layers = ".encoder.layer.",
    .classifier = {"bert.pooler.dense", true, false, "tanh", "classifier"},
    .choice = {.dense = "bert.pooler.dense", .dropout = ChoiceDropout::kClassifier},
    .masked_lm = &kMaskedLm,
};

}  // namespace lathe
