// The flags of run_mlm.py.
#include "lathe/settings/argument_table_lm.h"

namespace lathe {

const std::vector<Field<MlmArguments>>& mlm_fields() {
  using A = MlmArguments;
  constexpr Grade kScript = Grade::kMust;
  static const std::vector<Field<A>> fields = with_lm_rows<A>(
      {
          {"max_seq_length",
           &A::max_seq_length,
           kScript,
           "Tokens of a sample, if not what the tokenizer takes, 1024 at most.",
           {.low = 3, .high = kMostTokensOfSample, .first = true}},
          {"mlm_probability",
           &A::mlm_probability,
           kScript,
           "Share of the tokens that are masked.",
           {.low = 0, .high = 1}},
          {"line_by_line", &A::line_by_line, kScript,
           "Each text is a sample, cut at max_seq_length; else texts are joined and cut into such samples."},
          {"pad_to_max_length", &A::pad_to_max_length, kScript,
           "Draw masks as for samples padded to max_seq_length (with --line_by_line); padding is never "
           "computed."},
      },
      {"bert", "camembert", "distilbert", "modernbert", "roberta", "xlm-roberta"});
  return fields;
}

}  // namespace lathe
