#include "lathe/models/family.h"

namespace lathe {

// The discriminator.  Source: Clark et al. 2020 (arXiv 2003.10555); transformers' modeling_electra.
const Family kElectra{
    .model_type = "electra",
    .class_prefix = "Electra",
    .base = "electra",
    .layers = ".encoder.layer.",
    .defaults = {.model_type = "electra",
                 .hidden_size = 256,
                 .embedding_size = 128,
                 .num_attention_heads = 4,
                 .intermediate_size = 1024},
    .keys = {.embedding_size = "embedding_size"},
    .classifier = {"classifier.dense", false, true, "gelu", "classifier.out_proj"},
    .choice = {"sequence_summary.summary", false, "gelu", ChoiceDropout::kSummary},
};

}  // namespace lathe
