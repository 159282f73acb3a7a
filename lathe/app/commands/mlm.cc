// lathe mlm: what run_mlm.py does.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/lm_script.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

class Mlm : public LmScript<MlmArguments> {
 public:
  Mlm(Terminal& terminal, CommandLine<MlmArguments>& line, RunFacts facts,
      std::shared_ptr<ProcessGroup> group)
      : LmScript(terminal, line, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(script_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(script_.token);
    AutoModel model = make_model(hub, masked_lm);
    const Tokenizer& tokenizer = *model.tokenizer;
    TrainerHooks hooks = run_.hooks();
    length_ = static_cast<int>(run_.row_length(script_.max_seq_length, model));
    hooks.masks = std::make_shared<BatchMasks>(rules(tokenizer), static_cast<uint64_t>(training_.seed));
    read_data(hub);
    run_.check_metric({"loss", "accuracy"});
    if (!train_.column.empty()) run_.learns_from({train_.column}, false);
    ThreadPool pool(static_cast<int>(training_.threads));
    TokenizedDataset train =
        samples(train_texts(), "training", train_, tokenizer, pool, script_.max_train_samples);
    TokenizedDataset eval =
        samples(eval_texts(), "validation", eval_file(), tokenizer, pool, script_.max_eval_samples);
    if (training_.do_train) say_samples(run_, train, tokenizer);
    run_.check_ranks({{"validation samples", summary({&eval, 1})}});
    hooks.compute_metrics = accuracy_of_tokens;
    Trainer trainer(backend, model, training_, training_.do_train ? &train : nullptr,
                    training_.do_eval ? &eval : nullptr, hooks);
    trainer.pad_to(script_.line_by_line && script_.pad_to_max_length ? length_ : 0);
    trainer.call(name(), called());
    if (script_.model_name_or_path && (!training_.do_train || resume_from.empty()))
      say_load_report(run_, trainer, model);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train.size());
      if (training_.do_eval) evaluate(trainer, eval);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results(example(tokenizer));
    return 0;
  }

 private:
  MaskRules rules(const Tokenizer& tokenizer) const {
    MaskRules rules = mask_rules(tokenizer);
    rules.probability = script_.mlm_probability;
    if (script_.line_by_line && script_.pad_to_max_length) rules.least_length = length_;
    if (script_.line_by_line && !script_.pad_to_max_length && training_.fp16) rules.pad_to_multiple_of = 8;
    return rules;
  }

  /// As the script makes them; none of no texts.
  TokenizedDataset samples(std::span<const std::string_view> texts, const char* what, const TextFiles& file,
                           const Tokenizer& tokenizer, ThreadPool& pool, const std::optional<int64_t>& most) {
    if (texts.empty()) return {};
    const std::vector<std::string_view> usable =
        script_.line_by_line ? texts_with_words(texts) : std::vector(texts.begin(), texts.end());
    if (texts_with_words(usable).empty())
      fail(ErrorCode::kInvalidData, "{}: none of the {} {} texts has a word, expected texts to learn from",
           file.origin, texts.size(), what);
    TextRows rows = tokenize_texts(usable, tokenizer, script_.line_by_line ? length_ : 0, pool);
    const int64_t tokens = std::ssize(rows.ids), cut = rows.cut_rows;
    if (!script_.line_by_line) rows = group_texts(rows, length_);
    if (rows.size() == 0)
      fail(ErrorCode::kInvalidData,
           "{}: found {} {} tokens, expected at least the {} of a sample: give more texts, a smaller "
           "--max_seq_length, or --line_by_line, which makes each text a sample",
           file.origin, tokens, what, length_);
    const int64_t left = tokens - std::ssize(rows.ids);
    keep_first(rows, most.value_or(rows.size()));
    std::string line = fmt::format("{} {} samples, {} tokens", rows.size(), what, rows.ids.size());
    if (script_.line_by_line)
      line += cut > 0 ? fmt::format("; {} texts are cut at {}", cut, length_) : "; none cut";
    else
      line += fmt::format(", {} each; {} at the ends of thousands of texts are left out", length_, left);
    run_.say(LogLevel::kInfo, line);
    return masked_lm_samples(std::move(rows.ids), std::move(rows.begins),
                             training_.remove_unused_columns ? std::vector<uint8_t>() : rows.special);
  }

  /// As run_mlm.py gives them to create_model_card.
  CardFacts card_facts() const {
    const std::string dataset = script_.dataset_name.value_or(""),
                      part = script_.dataset_config_name.value_or("");
    return {.base_model = script_.model_name_or_path.value_or(""),
            .task = "fill-mask",
            .task_name = "Masked Language Modeling",
            .language = {},
            .dataset = part.empty() ? dataset : dataset + " " + part,
            .dataset_tag = dataset,
            .dataset_args = part};
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    return fmt::format(
        "{}, {}, {}, {} tokens{}{}", train_.origin, train_.from,
        script_.line_by_line ? "each text a sample" : "joined", length_,
        split_ > 0 ? fmt::format(", without the first {}", split_) : "",
        script_.max_train_samples ? fmt::format(", the first {} samples", *script_.max_train_samples) : "");
  }

  /// One of the first texts with a mask in place of a word, as a word of the shell.
  std::string example(const Tokenizer& tokenizer) const {
    constexpr size_t kMost = 20, kFew = 6, kWords = 12;
    const int32_t id = tokenizer.mask_id();
    const std::string mask = tokenizer.decode({&id, 1}, false);
    TextDataset texts;
    const std::vector<std::string_view> usable =
        texts_with_words(std::span(train_.texts).first(std::min(train_.texts.size(), kMost)));
    for (const std::string_view text : usable) {
      std::vector<std::string_view> words = split_words(text);
      if (words.size() < kFew) continue;
      words.resize(std::min(words.size(), kWords));
      words[words.size() / 2] = mask;
      texts.first.push_back(fmt::format("{}", fmt::join(words, " ")));
    }
    if (texts.first.empty()) texts.first.push_back(mask);
    return example_of(texts);
  }

  int length_ = 0;  ///< of a sample at most, in tokens
};

}  // namespace

Command mlm_command() {
  return script_command<Mlm, MlmArguments>(
      "mlm", "run_mlm", "train a masked language model",
      "lathe mlm --model_name_or_path bert-base-cased --train_file texts.txt --max_seq_length 128 \\\n"
      "      --do_train --do_eval --output_dir mine");
}

}  // namespace lathe
