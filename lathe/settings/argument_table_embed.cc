// The flags of lathe embed: names of sentence-transformers' losses and settings.
#include "lathe/settings/argument_table_adapters.h"

namespace lathe {

const std::vector<Field<EmbedArguments>>& embed_fields() {
  using A = EmbedArguments;
  constexpr double kMostTokens = std::numeric_limits<int>::max();
  static const std::vector<Field<A>> fields = with_adapter_rows<A>({
      {row_of("model_name_or_path"), &A::model_name_or_path},
      {row_of("config_name"), &A::config_name},
      {row_of("tokenizer_name"), &A::tokenizer_name},
      {row_of("cache_dir"), &A::cache_dir},
      {row_of("model_revision"), &A::model_revision},
      {row_of("token"), &A::token},
      {row_of("trust_remote_code"), &A::trust_remote_code},
      {"dataset_name", &A::dataset_name, "Data set by its name on the Hugging Face Hub.", {.first = true}},
      {row_of("dataset_config_name"), &A::dataset_config_name},
      {"train_file",
       &A::train_file,
       "Own training data: csv, tsv, json, jsonl or parquet; columns of texts (anchor, positive, negatives) "
       "and perhaps a label or score.",
       {.first = true}},
      {row_of("validation_file"), &A::validation_file},
      {"test_file", &A::test_file, "Own test data for --do_predict, which gives the texts' similarities."},
      {"queries_file", &A::queries_file,
       "Queries of a search to evaluate, with _id and text; with --corpus_file and --qrels_file."},
      {"corpus_file", &A::corpus_file, "Its documents, with _id, text and perhaps title."},
      {"qrels_file", &A::qrels_file, "Which belong together: query-id, corpus-id, score."},
      {"text_column_names", &A::text_column_names,
       "Columns of the texts in their order, with commas between; if not given, all but the label's."},
      {"label_column_name", &A::label_column_name,
       "Column of labels or scores, if not label, labels, score or scores."},
      {"loss",
       &A::loss,
       "What is learnt; if not given, CoSENTLoss with scores, ContrastiveLoss with labels 0 and 1, else "
       "MultipleNegativesRankingLoss.",
       {.choices = {"MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss",
                    "CosineSimilarityLoss", "CoSENTLoss", "TripletLoss", "ContrastiveLoss"},
        .first = true}},
      {"scale", &A::scale, "Factor of cosines: MultipleNegativesRankingLoss, CoSENTLoss.", {.low = 0}},
      {"symmetric", &A::symmetric,
       "MultipleNegativesRankingLoss: positives look for their anchors, too (query_to_doc and doc_to_query, "
       "per_direction)."},
      {"gather_across_devices", &A::gather_across_devices,
       "MultipleNegativesRankingLoss: the texts of all processes are negatives."},
      {"mini_batch_size",
       &A::mini_batch_size,
       "CachedMultipleNegativesRankingLoss: samples that are in memory at a time.",
       {.low = 1, .high = kMostTokens}},
      {"margin", &A::margin, "ContrastiveLoss: how far apart pairs with label 0 must be.", {.low = 0}},
      {"triplet_margin",
       &A::triplet_margin,
       "TripletLoss: how much farther than the positive the negative must be.",
       {.low = 0}},
      {"distance_metric",
       &A::distance_metric,
       "Distance of TripletLoss (if not given, euclidean) and ContrastiveLoss (cosine).",
       {.choices = {"cosine", "euclidean", "manhattan"}}},
      {"size_average", &A::size_average, "ContrastiveLoss: the mean over the samples, else the sum."},
      {"matryoshka_dims", &A::matryoshka_dims,
       "Train also the first so many numbers of the vectors: 768,256,64."},
      {"matryoshka_weights", &A::matryoshka_weights, "Their weights, if not 1: 1,0.5,0.25."},
      {"batch_sampler",
       &A::batch_sampler,
       "no_duplicates: no batch has a text twice.",
       {.choices = {"batch_sampler", "no_duplicates"}}},
      {"prompts", &A::prompts,
       "What comes before the texts: a text, or by columns {\"query\": \"query: \", \"passage\": "
       "\"passage: \"}."},
      {"pooling_mode", &A::pooling_mode,
       "How tokens become a vector, of an encoder that has no modules yet: mean, cls, max, lasttoken, "
       "weightedmean, mean_sqrt_len_tokens; several with commas between."},
      {"max_seq_length",
       &A::max_seq_length,
       "Longest text in tokens, if not what the model says; longer ones are cut.",
       {.low = 3, .high = kMostTokens}},
      {"max_train_samples", &A::max_train_samples, "Use the first so many training rows.", {.low = 1}},
      {"max_eval_samples", &A::max_eval_samples, "Use the first so many validation rows.", {.low = 1}},
      {"max_predict_samples", &A::max_predict_samples, "Use the first so many test rows.", {.low = 1}},
      {row_of("config_overrides"), &A::config_overrides},
  });
  return fields;
}

}  // namespace lathe
